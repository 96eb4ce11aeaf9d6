#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <initializer_list>

/// Signals that would end this process, heard as bytes of a descriptor. They
/// stay blocked in the thread that made it, and in threads that it starts.
class heard_signals {
public:
  /// @errors throws std::runtime_error if there is no descriptor left.
  explicit heard_signals(std::initializer_list<int> numbers);

  /// Can be read when a signal came.
  int descriptor() const { return from_.get(); }

  /// @returns one that came, or 0.
  int take() const;

private:
  troupe::net::descriptor from_;
};

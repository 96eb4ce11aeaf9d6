#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <initializer_list>

/// Receives signals through a descriptor (signalfd) instead of handlers. The
/// signals stay blocked in the constructing thread and in threads that it
/// starts.
class signal_receiver {
public:
  /// Blocks the signals with these numbers and opens the descriptor.
  /// @errors throws std::runtime_error if the descriptor cannot be created.
  explicit signal_receiver(std::initializer_list<int> numbers);

  /// Readable when a signal is pending.
  int descriptor() const { return descriptor_.get(); }

  /// Takes a pending signal. Returns its number, or 0 if no signal is pending.
  int take() const;

private:
  troupe::net::descriptor descriptor_;
};

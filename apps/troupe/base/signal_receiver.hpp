#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <initializer_list>
#include <set>

/// Receives signals through a descriptor (signalfd) instead of handlers. The
/// signals stay blocked in the constructing thread and in threads that it
/// starts.
class signal_receiver {
public:
  /// Blocks the signals with these numbers and opens the descriptor. SIGHUP is
  /// left out if this process ignores it, as under nohup.
  /// @errors throws std::runtime_error if the descriptor cannot be created.
  explicit signal_receiver(std::initializer_list<int> numbers);

  /// Readable when a signal is pending.
  int descriptor() const { return descriptor_.get(); }

  /// Takes a pending signal. Returns its number, or 0 if no signal is pending.
  int take() const;

private:
  troupe::net::descriptor descriptor_;
};

/// True if this process ignores SIGHUP, as one that nohup has started.
bool ignores_hangup();

/// Signals that have arrived at a launcher.
class received_signals {
public:
  /// Notes a signal.
  /// @returns true if it has arrived before, and ends the program immediately.
  ///          The end of a terminal can send SIGHUP several times, so that
  ///          signal never does.
  bool repeats(int signal_number);

private:
  std::set<int> numbers_;
};

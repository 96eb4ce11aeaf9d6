#pragma once

#include "troupe/actors/membership/peers/membership_options.hpp"

#include <caf/timespan.hpp>

#include <optional>

namespace troupe {

/// Ends the recovery of a process whose program wants to stop, if the recovery
/// does not end by itself in time.
class recovery_stop {
public:
  /// @param options must outlive this object.
  explicit recovery_stop(const membership_options& options)
    : options_{options} {}

  /// To be called in regular intervals.
  /// @param now the time of the actor's clock.
  void on_interval(caf::timespan now);

private:
  const membership_options& options_;
  /// Since when the program wants to stop during a recovery. None: it does not.
  std::optional<caf::timespan> wanted_since_;
};

} // namespace troupe

#pragma once

#include "troupe/training/strategies/strategy.hpp"

#include <chrono>
#include <string>
#include <vector>

// The strategies of one machine. Each is a `strategy`; they differ in how they
// are made.

namespace troupe {

class runtime;

/// What holds where nothing was chosen: one replica on "cpu:0", on the calling
/// thread.
class default_strategy : public strategy {
public:
  default_strategy();
};

struct one_device_options {
  /// Logical replicas, which take turns: the weights are those that as many
  /// devices would give, to the last bit.
  std::uint32_t replicas = 1;
  int threads = 1; ///< Of each replica's ops.
};

/// All computation on one device, on the calling thread.
class one_device_strategy : public strategy {
public:
  /// @errors throws std::invalid_argument for a device that there is not, and
  ///         for options below 1.
  explicit one_device_strategy(const std::string& device,
                               const one_device_options& options = {});
};

struct mirrored_options {
  int threads = 1; ///< Of each replica's ops.
  /// Longest that one step, or one wait in it, may take.
  std::chrono::milliseconds patience{60'000};
};

/// A replica on each device, each an actor with a thread and a copy of the
/// parameters of its own; they exchange gradients and stay equal to the last
/// bit.
class mirrored_strategy : public strategy {
public:
  /// @param on      outlives the strategy and all made in its scope.
  /// @param devices one replica each.
  /// @errors throws std::invalid_argument for no device, one that there is not,
  ///         one named twice, and options below 1.
  mirrored_strategy(runtime& on, const std::vector<std::string>& devices,
                    const mirrored_options& options = {});
};

} // namespace troupe

#pragma once

#include "troupe/training/strategies/strategy.hpp"

#include <chrono>
#include <string>
#include <vector>

// The strategies of one machine. Each class differs from `strategy` only in its
// constructor.

namespace troupe {

class runtime;

/// The strategy of code outside any scope. It has one replica on "cpu:0", on
/// the calling thread.
class default_strategy : public strategy {
public:
  default_strategy();
};

struct one_device_options {
  /// Number of logical replicas, which run in turn on the device. The weights
  /// are bitwise equal to the weights of a job with one device per replica.
  std::uint32_t replicas = 1;
  int threads = 1; ///< Threads of each replica's ops.
};

/// Runs all computation on one device, on the calling thread.
class one_device_strategy : public strategy {
public:
  /// @errors throws std::invalid_argument if the device does not exist or an
  ///         option is below 1.
  explicit one_device_strategy(const std::string& device,
                               const one_device_options& options = {});
};

struct mirrored_options {
  int threads = 1; ///< Threads of each replica's ops.
  /// Timeout of one step and of each wait in it.
  std::chrono::milliseconds step_timeout{60'000};
};

/// Runs one replica on each device. Each replica is an actor with its own
/// thread. The replicas share one copy of the parameters. After each backward
/// pass they add their gradients and update the parameters together.
class mirrored_strategy : public strategy {
public:
  /// @param local_runtime outlives the strategy and everything made in its
  /// scope.
  /// @param devices names of the devices.
  /// @errors throws std::invalid_argument if no device is named, a device does
  ///         not exist or is named twice, or an option is below 1.
  mirrored_strategy(runtime& local_runtime,
                    const std::vector<std::string>& devices,
                    const mirrored_options& options = {});
};

} // namespace troupe

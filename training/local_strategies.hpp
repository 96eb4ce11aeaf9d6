#pragma once

#include "troupe/training/strategy.hpp"

#include <string>

// The strategies of one machine. Each is a `strategy`; they differ in how they
// are made.

namespace troupe {

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

} // namespace troupe

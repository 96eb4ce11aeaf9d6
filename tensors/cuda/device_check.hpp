#pragma once

#include <cstdint>
#include <string>

namespace troupe::cuda {

/// What decides whether a device can run this build.
struct device_abilities {
  /// Result of a search for code of the build that the device can run.
  enum class code {
    found,
    missing,    ///< The build has none for this compute capability.
    not_loaded, ///< The driver does not accept it.
  };

  int major = 0, minor = 0; ///< Compute capability.
  code kernels = code::found;
  std::string load_error{}; ///< Text of the driver for `not_loaded`.
  bool has_memory_pools = true;
};

/// Selects the device for the calls of this thread.
/// @cost initializes the device.
/// @errors throws device_error if the device does not answer.
device_abilities abilities_of(std::uint32_t index);

/// Says why a device cannot run this build, and what would do. Empty: it can.
std::string why_unusable(const device_abilities& x);

} // namespace troupe::cuda

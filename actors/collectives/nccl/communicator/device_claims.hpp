#pragma once

#include <memory>
#include <span>

namespace troupe {

class communication_device;

/// The devices that one owner uses through NCCL. Another owner in this process
/// cannot claim them meanwhile: threads may not use two communicators of one
/// device at the same time.
/// @source NCCL user guide, "Using multiple NCCL communicators concurrently".
class device_claims {
public:
  device_claims() = default;
  /// Releases the devices.
  ~device_claims();
  device_claims(const device_claims&) = delete;
  device_claims& operator=(const device_claims&) = delete;

  /// Claims devices. The owner may have claimed them before.
  /// @returns false if another owner has claimed one of them. Then none is
  ///          claimed.
  bool claim(std::span<const std::shared_ptr<communication_device>> devices);
};

} // namespace troupe

#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {

class communication_device;

/// When NCCL adds the sums of tensors on the devices of a job's processes.
enum class device_sum_policy : std::uint8_t {
  never,
  if_possible, ///< In each view in which all processes can use NCCL.
  /// As `if_possible`, but the job does not begin if they cannot. If a later
  /// view has a process that cannot, its sums are added on the host.
  required,
};

/// For people: "on the host", "by NCCL if possible" or "by NCCL".
std::string to_string(device_sum_policy policy);

/// How a process takes part in sums of tensors on devices.
struct device_sum_options {
  device_sum_policy policy = device_sum_policy::never; ///< Equal in all.
  /// The devices of this process, which its replicas take in turn. Empty: it
  /// has none.
  std::vector<std::shared_ptr<communication_device>> devices{};
  std::string why_none{}; ///< Why it has none, for a person.
};

/// What a process tells the others at the beginning of a view. All processes
/// with replicas get the same offers, so they decide alike whether NCCL adds
/// their sums.
struct device_offer {
  /// `communication_device::identity` of each device. Empty: there is none.
  std::vector<std::string> devices;
  std::string library;  ///< `communication_device::library_version`.
  std::string why_none; ///< Why there is no device. Else empty.
  auto fields() { return std::tie(devices, library, why_none); }
  friend bool operator==(const device_offer&, const device_offer&) = default;
};

/// Returns the offer of this process.
/// @errors throws device_error.
device_offer make_device_offer(const device_sum_options& options);

/// The offer of a process with this name.
struct named_offer {
  std::string process;
  device_offer offer;
};

/// Says why NCCL cannot add the sums of these processes. One has no device, two
/// have the same device, or numbers of devices or versions of NCCL differ.
/// Empty: NCCL can add the sums.
std::string why_not_nccl(std::span<const named_offer> offers);

} // namespace troupe

#include "troupe/training/strategies/nccl_devices.hpp"

#include "troupe/actors/collectives/nccl/nccl_device.hpp"

#include <stdexcept>

namespace troupe {

device_sum_options open_nccl_devices(device_sum_policy policy,
                                     const std::vector<device>& devices,
                                     const nccl_device_maker& make) {
  device_sum_options out;
  out.policy = policy;
  try {
    for (const auto& one : devices) {
      if (one.kind != device_kind::cuda)
        throw device_error{to_string(one) + " is no CUDA device"};
      out.devices.push_back(make ? make(one) : make_nccl_device(one.index));
    }
  } catch (const device_error& e) {
    out.devices.clear();
    out.why_none = e.what();
  }
  if (policy == device_sum_policy::required && out.devices.empty())
    throw std::invalid_argument(
      "collectives nccl: " + out.why_none
      + "; name a CUDA device of a machine with NCCL, "
        "as in gpu:0, or give collectives host");
  return out;
}

device_sum_options
local_device_sums(communication_options::backends collectives,
                  const std::vector<device>& devices,
                  const nccl_device_maker& make) {
  using backends = communication_options::backends;
  const bool is_required = collectives == backends::nccl;
  const bool is_possible =
    devices.size() > 1 && devices.front().kind == device_kind::cuda;
  if (collectives == backends::host || !(is_required || is_possible))
    return {};
  return open_nccl_devices(is_required ? device_sum_policy::required
                                       : device_sum_policy::if_possible,
                           devices, make);
}

} // namespace troupe

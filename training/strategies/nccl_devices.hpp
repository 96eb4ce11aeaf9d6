#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/training/strategies/replica/communication.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace troupe {

/// Makes the NCCL device of a CUDA device. Null: that of the card.
using nccl_device_maker =
  std::function<std::shared_ptr<communication_device>(const device&)>;

/// Opens the devices of this process for sums through NCCL.
/// @param policy not `never`.
/// @errors throws std::invalid_argument if NCCL is required and one of the
///         devices cannot use it.
device_sum_options open_nccl_devices(device_sum_policy policy,
                                     const std::vector<device>& devices,
                                     const nccl_device_maker& make);

/// Returns how a job of one process adds the sums of tensors on its devices.
/// One device has nothing to add, and replicas on CPUs share their gradients.
/// @errors as `open_nccl_devices`.
device_sum_options
local_device_sums(communication_options::backends collectives,
                  const std::vector<device>& devices,
                  const nccl_device_maker& make);

} // namespace troupe

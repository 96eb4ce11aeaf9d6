#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// Returns the communication device for a CUDA device, which is the same object
/// for all of its users in this process.
/// @errors throws device_error with a sentence: this build has no CUDA, there
///         is no driver, no such device, or no NCCL.
std::shared_ptr<communication_device> make_nccl_device(std::uint32_t index);

} // namespace troupe

#pragma once

#include "troupe/tensors/device_backend.hpp"

#include <memory>

// Graphs of CUDA devices. A capture has a stream of its own, into which only
// its thread gives work. So other threads can use the stream `compute`
// meanwhile, and cannot add to the graph.

namespace troupe::cuda {

class memory_cache;

/// Begins to capture the work of the calling thread on a device.
/// @param memory of the device.
/// @errors throws device_error, and std::logic_error if the thread captures
///         already.
std::unique_ptr<device_backend::capture> begin_capture(const device& on,
                                                       memory_cache& memory);

} // namespace troupe::cuda

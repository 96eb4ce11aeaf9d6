#pragma once

#include "troupe/tensors/device.hpp"

#include <cstdint>
#include <cuda_runtime_api.h>

namespace troupe {
struct op_call;
} // namespace troupe

// All work on tensors of a device runs in one stream of that device, whichever
// thread gives it. So memory that is released can be used again at once, by
// work that comes later.

namespace troupe::cuda {

/// @errors throws device_error that names the call if it failed.
void check(cudaError_t result, const char* call);

/// Number of devices. 0 also without a driver.
/// @cost loads the driver at the first call.
std::uint32_t device_count();

/// Returns the stream of a device, and selects the device for the calls of this
/// thread.
/// @errors throws device_error.
cudaStream_t compute_stream(const device& on);

/// Returns the stream for the kernels of a call. An error that `synchronize`
/// finds names the op of the last call.
cudaStream_t compute_stream(const op_call& call);

/// Checks that the kernels of a call were started.
/// @errors throws device_error that names the op.
void check_launch(const op_call& call, cudaError_t result);

/// Waits until the device has done all work of its stream.
/// @errors throws device_error if a kernel has failed, and std::logic_error if
///         an op has found an invalid value in a tensor.
void synchronize(const device& on);

/// An invalid value that a kernel has found in a tensor.
struct invalid_value {
  enum class kind : int { none, label, id };
  int what = 0; ///< A `kind`; written first.
  long long value = 0;
  long long position = 0;
  long long limit = 0; ///< Valid values are at least 0 and below.
};

/// Where kernels of a device report an invalid value: host memory that the
/// device can write. `synchronize` throws the first one.
invalid_value* invalid_value_of(const device& on);

} // namespace troupe::cuda

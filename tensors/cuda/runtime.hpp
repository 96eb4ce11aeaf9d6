#pragma once

#include "troupe/tensors/device.hpp"

#include <cstdint>
#include <cuda_runtime_api.h>

namespace troupe {
struct op_call;
} // namespace troupe

// All computation on tensors of a device runs in one stream of that device,
// whichever thread gives it. So memory that is released can be used again at
// once, by work that comes later. Copies beside the computation run in a second
// stream, and events order the two.

namespace troupe::cuda {

/// @errors throws device_lost if the error means that the selected device has
///         failed, and device_error that names the call if it failed otherwise.
void check(cudaError_t result, const char* call);

/// Number of devices. 0 also without a driver.
/// @cost loads the driver at the first call.
std::uint32_t device_count();
/// Returns what the driver, or the lack of one, says of the search for devices.
std::string device_search_text();

/// Returns the stream of a device, and selects the device for the calls of this
/// thread. If the thread captures work of the device, the stream is that of the
/// capture.
/// @errors throws device_error.
cudaStream_t compute_stream(const device& on);

/// Returns the stream of a device, also if the thread captures, and selects the
/// device.
/// @errors throws device_error.
cudaStream_t uncaptured_stream(const device& on);

/// Returns the stream for the kernels of a call. An error that `synchronize`
/// finds names the op of the last call.
cudaStream_t compute_stream(const op_call& call);

/// Returns the stream of a device for copies beside the computation, and
/// selects the device for the calls of this thread.
/// @errors throws device_error.
cudaStream_t copy_stream(const device& on);

/// A capture by a thread (graph.hpp).
struct thread_capture {
  device on{};
  /// Only the thread of the capture gives work to this stream.
  cudaStream_t stream = nullptr;
  std::uint64_t graph = 0; ///< Owns the memory that the thread allocates.
  /// In memory of the device: the step whose random numbers ops draw.
  const std::int64_t* step = nullptr;
  std::uint32_t random_ops = 0; ///< How many ops read `step`.
};

/// Returns the capture by the calling thread on a device. Null: none.
thread_capture* find_capture(const device& on);

/// Sets the capture by the calling thread. Null: none.
/// @errors throws std::logic_error if it has another one.
void set_capture(thread_capture* next);

/// @errors throws device_error that names the call if the calling thread
///         captures.
void refuse_in_capture(const char* call);

/// Selects a device that this process has used, if there is one. Otherwise a
/// thread that only allocates memory of the host would initialize device 0.
void select_used_device();

/// Checks that the kernels of a call were started.
/// @errors throws device_error that names the op.
void check_launch(const op_call& call, cudaError_t result);

/// Asks whether a device can be used further. Does not wait for its work.
/// @errors throws device_lost if it has failed.
void check_device(const device& on);

/// Waits until the device has done all work of its stream.
/// @errors throws device_error if a kernel has failed, and std::logic_error if
///         an op has found an invalid value in a tensor.
void synchronize(const device& on);
/// Waits until the device has done the work before an event.
/// @errors as `synchronize` of the device.
void synchronize(const device& on, cudaEvent_t event);

/// How often the threads of this process have waited for a device.
std::uint64_t synchronizations();

/// An invalid value that a kernel has found in a tensor.
struct invalid_value {
  enum class kind : int { none, label, id };
  /// A `kind`. A kernel writes it last, and the host reads it first.
  int what = 0;
  /// In memory of the device. 1: a kernel writes the fields, or has written
  /// them. The host sets it to 0 in the stream `compute`.
  int* is_claimed = nullptr;
  long long value = 0;
  long long position = 0;
  long long limit = 0; ///< Valid values are at least 0 and below.
};

/// Where kernels of a device report an invalid value, by `report_invalid`: host
/// memory that the device can write. `synchronize` throws the first one. What
/// kernels find that the device got before the throw is not reported.
invalid_value* invalid_value_of(const device& on);

} // namespace troupe::cuda

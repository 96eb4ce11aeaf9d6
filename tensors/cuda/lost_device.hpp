#pragma once

namespace troupe::cuda {

/// Returns true if an error means that the device has failed for this process.
/// @param error a `cudaError_t`.
/// @source the CUDA Runtime API, `cudaError`: for most of these "the process
///         must be terminated and relaunched". After an uncorrectable error of
///         memory or NVLink, the context of the process does not work either.
bool means_lost_device(int error);

/// Returns true if the query of a stream that exists means so. Such a call has
/// no arguments that could be wrong, so any error but those of captures does.
/// @param result a `cudaError_t`.
bool query_means_lost_device(int result);

} // namespace troupe::cuda

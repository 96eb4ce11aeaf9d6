#pragma once

#include <cudnn_graph.h>
#include <string>

namespace troupe::cuda {

/// The functions of cuDNN that Troupe calls: those of its graph API. The
/// library is opened at the first use, so programs start on machines without
/// it.
struct cudnn_library {
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnGetErrorString) get_error_string;
  decltype(&cudnnGetLastErrorString) get_last_error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

/// Returns the functions of cuDNN.
/// @errors throws device_error if the library is missing or lacks a function.
const cudnn_library& cudnn();

/// Returns the version of the library: "9.19.0".
std::string cudnn_version();

/// Describes the failure of a call in this thread: the name of the result, and
/// the reason that the library gives.
std::string cudnn_reason(cudnnStatus_t result);

/// @errors throws device_error with the name of the call and `cudnn_reason`.
void check(cudnnStatus_t result, const char* call);

} // namespace troupe::cuda

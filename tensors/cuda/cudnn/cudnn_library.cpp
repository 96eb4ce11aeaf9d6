#include "troupe/tensors/cuda/cudnn/cudnn_library.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/cuda/shared_library.hpp"

#include <array>

namespace troupe::cuda {

namespace {

cudnn_library load() {
  // Never closed: tensors may be released at the end of the process.
  static const auto& library =
    *new shared_library{"libcudnn.so.9", TROUPE_CUDNN_LIBRARY, "cuDNN"};
  cudnn_library out{};
  library.find("cudnnGetVersion", out.get_version);
  library.find("cudnnGetErrorString", out.get_error_string);
  library.find("cudnnGetLastErrorString", out.get_last_error_string);
  library.find("cudnnCreate", out.create);
  library.find("cudnnSetStream", out.set_stream);
  library.find("cudnnBackendCreateDescriptor", out.create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", out.destroy_descriptor);
  library.find("cudnnBackendSetAttribute", out.set_attribute);
  library.find("cudnnBackendGetAttribute", out.get_attribute);
  library.find("cudnnBackendFinalize", out.finalize);
  library.find("cudnnBackendExecute", out.execute);
  return out;
}

} // namespace

const cudnn_library& cudnn() {
  static const cudnn_library functions = load();
  return functions;
}

std::string cudnn_version() {
  const auto code = cudnn().get_version();
  return std::to_string(code / 10'000) + "." + std::to_string(code / 100 % 100)
         + "." + std::to_string(code % 100);
}

std::string cudnn_reason(cudnnStatus_t result) {
  std::array<char, 512> message{};
  cudnn().get_last_error_string(message.data(), message.size());
  message.back() = '\0';
  const std::string name = cudnn().get_error_string(result);
  const std::string detail = message.data();
  return detail.empty() ? name : name + " (" + detail + ")";
}

void check(cudnnStatus_t result, const char* call) {
  if (result != CUDNN_STATUS_SUCCESS)
    throw device_error{std::string{call} + " failed: " + cudnn_reason(result)};
}

} // namespace troupe::cuda

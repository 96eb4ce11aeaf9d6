#include "troupe/tensors/cuda/device_check.hpp"

#include "troupe/tensors/cuda/any_kernel.hpp"
#include "troupe/tensors/cuda/runtime.hpp"

namespace troupe::cuda {

device_abilities abilities_of(std::uint32_t index) {
  using code = device_abilities::code;
  const auto number = static_cast<int>(index);
  const auto attribute_of = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, number),
          "cudaDeviceGetAttribute");
    return value;
  };
  check(cudaSetDevice(number), "cudaSetDevice");
  device_abilities out{.major = attribute_of(cudaDevAttrComputeCapabilityMajor),
                       .minor = attribute_of(cudaDevAttrComputeCapabilityMinor),
                       .has_memory_pools =
                         attribute_of(cudaDevAttrMemoryPoolsSupported) != 0};
  const auto result = load_any_kernel();
  if (result == cudaSuccess)
    return out;
  cudaGetLastError(); // forgets the error
  const bool is_missing = result == cudaErrorNoKernelImageForDevice
                          || result == cudaErrorInvalidDeviceFunction;
  out.kernels = is_missing ? code::missing : code::not_loaded;
  out.load_error = std::string{cudaGetErrorString(result)} + " ("
                   + cudaGetErrorName(result) + ")";
  return out;
}

std::string why_unusable(const device_abilities& x) {
  using code = device_abilities::code;
  if (x.kernels == code::missing)
    return "Troupe was built without code for compute capability "
           + std::to_string(x.major) + "." + std::to_string(x.minor)
           + "; build it with TROUPE_CUDA_ARCHITECTURES="
           + std::to_string(x.major) + std::to_string(x.minor);
  if (x.kernels == code::not_loaded)
    return "the kernels of Troupe cannot be loaded: " + x.load_error
           + "; check the card, or install a newer driver";
  if (!x.has_memory_pools)
    return "its driver has no memory pools; use a card or a driver that has "
           "them";
  return "";
}

} // namespace troupe::cuda

#include "troupe/actors/collectives/nccl/nccl_device.hpp"

#ifdef TROUPE_HAS_CUDA
#include "troupe/actors/collectives/nccl/cuda/cuda_device.hpp"
#endif

namespace troupe {

std::shared_ptr<communication_device>
make_nccl_device([[maybe_unused]] std::uint32_t index) {
#ifdef TROUPE_HAS_CUDA
  return std::make_shared<cuda::communication_device>(index);
#else
  throw device_error{"cuda:" + std::to_string(index)
                     + " cannot be used, because Troupe was built without "
                       "CUDA; configure it with TROUPE_CUDA=ON"};
#endif
}

} // namespace troupe

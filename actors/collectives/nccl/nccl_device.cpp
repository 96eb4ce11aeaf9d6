#include "troupe/actors/collectives/nccl/nccl_device.hpp"

#ifdef TROUPE_HAS_CUDA
#include "troupe/actors/collectives/nccl/cuda/cuda_device.hpp"
#endif

#include <map>
#include <mutex>

namespace troupe {

std::shared_ptr<communication_device>
make_nccl_device([[maybe_unused]] std::uint32_t index) {
#ifdef TROUPE_HAS_CUDA
  static std::mutex lock;
  static std::map<std::uint32_t, std::weak_ptr<communication_device>> made;
  const std::lock_guard hold{lock};
  auto out = made[index].lock();
  if (!out)
    made[index] = out = std::make_shared<cuda::communication_device>(index);
  return out;
#else
  throw device_error{"cuda:" + std::to_string(index)
                     + " cannot be used, because Troupe was built without "
                       "CUDA; configure it with TROUPE_CUDA=ON"};
#endif
}

} // namespace troupe

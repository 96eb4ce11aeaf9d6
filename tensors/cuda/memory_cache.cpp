#include "troupe/tensors/cuda/memory_cache.hpp"

#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/cuda/size_class.hpp"
#include "troupe/tensors/device_error.hpp"

#include <algorithm>
#include <string>

namespace troupe::cuda {

std::byte* memory_cache::allocate(std::size_t bytes) {
  const auto [index, size] = class_of(bytes);
  const auto stream = compute_stream(on_);
  const std::lock_guard locked{lock_};
  if (index < classes && !free_[index].empty()) {
    auto* const block = free_[index].back();
    free_[index].pop_back();
    usage_.live += size;
    usage_.cached -= size;
    return block;
  }
  void* block = nullptr;
  const auto take = [&] {
    const auto used = usage_.live + usage_.cached;
    if (index >= classes
        || (limit_ != 0 && (size > limit_ || used > limit_ - size)))
      return cudaErrorMemoryAllocation;
    return cudaMallocAsync(&block, size, stream);
  };
  auto result = take();
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError(); // forgets the error
    trim_locked();
    result = take();
  }
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    if (limit_ != 0)
      free = std::min(free, limit_ - std::min(limit_, usage_.live));
    throw device_error{to_string(on_) + " has too little memory: "
                       + std::to_string(bytes) + " bytes were asked for, "
                       + std::to_string(free) + " are free, and tensors use "
                       + std::to_string(usage_.live)};
  }
  check(result, "cudaMallocAsync");
  usage_.live += size;
  usage_.peak = std::max(usage_.peak, usage_.live + usage_.cached);
  return static_cast<std::byte*>(block);
}

void memory_cache::release(std::byte* block, std::size_t bytes) noexcept {
  const auto [index, size] = class_of(bytes);
  const std::lock_guard locked{lock_};
  usage_.live -= size;
  usage_.cached += size;
  try {
    free_[index].push_back(block);
  } catch (...) { // no memory of the host
    usage_.cached -= size;
    cudaSetDevice(static_cast<int>(on_.index));
    cudaFree(block);
  }
}

memory::usage memory_cache::used() const {
  const std::lock_guard locked{lock_};
  return usage_;
}

void memory_cache::set_limit(std::size_t bytes) {
  const std::lock_guard locked{lock_};
  limit_ = bytes;
}

void memory_cache::trim() {
  const auto stream = compute_stream(on_);
  {
    const std::lock_guard locked{lock_};
    trim_locked();
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, static_cast<int>(on_.index)),
        "cudaDeviceGetDefaultMemPool");
  check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
}

void memory_cache::trim_locked() noexcept {
  try {
    const auto stream = compute_stream(on_);
    for (auto& list : free_) {
      for (auto* block : list)
        cudaFreeAsync(block, stream);
      list.clear();
    }
    usage_.cached = 0;
    cudaStreamSynchronize(stream);
  } catch (const device_error&) { // the next call of the device reports it
  }
}

} // namespace troupe::cuda

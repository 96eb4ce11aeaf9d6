#include "troupe/tensors/cuda/memory_cache.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/cuda/size_class.hpp"

#include <algorithm>
#include <string>

namespace troupe::cuda {

namespace {

/// Lets a thread that captures allocate and free memory: these calls are not
/// captured.
class uncaptured_calls {
public:
  explicit uncaptured_calls(const device& on) {
    if (find_capture(on))
      cudaThreadExchangeStreamCaptureMode(&mode_);
    else
      is_capturing_ = false;
  }
  ~uncaptured_calls() {
    if (is_capturing_)
      cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  uncaptured_calls(const uncaptured_calls&) = delete;
  uncaptured_calls& operator=(const uncaptured_calls&) = delete;

private:
  /// Mode of the thread, kept here meanwhile.
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool is_capturing_ = true;
};

} // namespace

std::byte* memory_cache::allocate(std::size_t bytes) {
  const auto size = class_of(bytes);
  const auto* const capture = find_capture(on_);
  const std::lock_guard locked{lock_};
  if (!capture)
    return allocate_locked(bytes, size);
  if (auto* const block = graph_blocks_.take(capture->graph, size))
    return block;
  // The launch comes later than all work that has used the block.
  auto* const block = allocate_locked(bytes, size);
  try {
    graph_blocks_.add(capture->graph, block, size);
  } catch (...) { // no memory of the host
    keep_locked(block, size);
    throw;
  }
  return block;
}

std::byte* memory_cache::allocate_locked(std::size_t bytes,
                                         const size_class& size) {
  const auto index = size.index;
  const auto stream = uncaptured_stream(on_);
  if (index < classes && !free_[index].empty()) {
    auto* const block = free_[index].back();
    free_[index].pop_back();
    usage_.live += size.bytes;
    usage_.cached -= size.bytes;
    return block;
  }
  const uncaptured_calls allowed{on_};
  void* block = nullptr;
  const auto take = [&] {
    const auto used = usage_.live + usage_.cached;
    if (index >= classes
        || (limit_ != 0 && (size.bytes > limit_ || used > limit_ - size.bytes)))
      return cudaErrorMemoryAllocation;
    return cudaMallocAsync(&block, size.bytes, stream);
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
  usage_.live += size.bytes;
  usage_.peak = std::max(usage_.peak, usage_.live + usage_.cached);
  return static_cast<std::byte*>(block);
}

void memory_cache::release(std::byte* block, std::size_t bytes) noexcept {
  const std::lock_guard locked{lock_};
  if (!graph_blocks_.release(block))
    keep_locked(block, class_of(bytes));
}

void memory_cache::keep_locked(std::byte* block,
                               const size_class& size) noexcept {
  usage_.live -= size.bytes;
  usage_.cached += size.bytes;
  try {
    free_[size.index].push_back(block);
  } catch (...) { // no memory of the host
    usage_.cached -= size.bytes;
    cudaSetDevice(static_cast<int>(on_.index));
    cudaFree(block);
  }
}

std::uint64_t memory_cache::add_graph() {
  const std::lock_guard locked{lock_};
  return ++last_graph_;
}

void memory_cache::remove_graph(std::uint64_t graph) noexcept {
  const std::lock_guard locked{lock_};
  graph_blocks_.remove(graph, [&](std::byte* block, const size_class& size) {
    keep_locked(block, size);
  });
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
  const auto stream = uncaptured_stream(on_);
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
    const auto stream = uncaptured_stream(on_);
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

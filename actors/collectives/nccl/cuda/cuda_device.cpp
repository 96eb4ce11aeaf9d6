#include "troupe/actors/collectives/nccl/cuda/cuda_device.hpp"

#include "troupe/actors/collectives/nccl/cuda/add.hpp"
#include "troupe/actors/collectives/nccl/cuda/nccl_library.hpp"
#include "troupe/tensors/cuda/runtime.hpp"

#include <array>
#include <cstring>
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::cuda {

namespace {

using cuda::check;

/// Checks the result of a call of NCCL. A call that goes on in the background
/// has not failed.
void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess && result != ncclInProgress)
    throw device_error{std::string{call}
                       + " failed: " + nccl().get_error_string(result) + " ("
                       + nccl().get_last_error(nullptr) + ")"};
}

/// Selects the device for the calls of this thread.
void use(int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
}

ncclDataType_t type_of(dtype type) {
  switch (type) {
    case dtype::float32:
      return ncclFloat32;
    case dtype::float64:
      return ncclFloat64;
    default:
      throw std::logic_error("NCCL adds float32 and float64 only, not "
                             + std::string{to_string(type)});
  }
}

class event final : public device_event {
public:
  event(int device, cudaStream_t stream) : device_{device} {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    if (const auto result = cudaEventRecord(event_, stream);
        result != cudaSuccess) {
      cudaEventDestroy(event_);
      check(result, "cudaEventRecord");
    }
  }
  ~event() override {
    cudaSetDevice(device_);
    cudaEventDestroy(event_);
  }
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  bool is_complete() override {
    use(device_);
    const auto result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) {
      cudaGetLastError(); // forgets that it is not ready
      return false;
    }
    check(result, "cudaEventQuery");
    return true;
  }
  cudaEvent_t handle() const { return event_; }

private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

} // namespace

class stream final : public device_stream {
public:
  explicit stream(int device) : device_{device} {
    use(device_);
    // Otherwise kernels of NCCL would queue behind those of the backward pass.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
          "cudaDeviceGetStreamPriorityRange");
    check(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
      "cudaStreamCreateWithPriority");
  }
  /// A stream that another object owns.
  stream(int device, cudaStream_t borrowed)
    : device_{device}, stream_{borrowed}, is_owner_{false} {}
  ~stream() override {
    if (!is_owner_)
      return;
    cudaSetDevice(device_);
    cudaStreamDestroy(stream_);
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  device_event_ptr record() override {
    use(device_);
    return std::make_shared<event>(device_, stream_);
  }
  void wait(const device_event& after) override {
    use(device_);
    check(cudaStreamWaitEvent(stream_,
                              static_cast<const event&>(after).handle(), 0),
          "cudaStreamWaitEvent");
  }
  void copy(std::byte* into, const std::byte* from,
            std::size_t bytes) override {
    use(device_);
    check(cudaMemcpyAsync(into, from, bytes, cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync");
  }
  void copy(std::byte* into, const tensor& from) override {
    copy(into, from.address(), from.bytes());
  }
  void copy(const tensor& into, const std::byte* from) override {
    copy(into.address(), from, into.bytes());
  }
  void add(std::byte* sum, const std::byte* a, const std::byte* b,
           std::size_t elements, dtype type) override {
    use(device_);
    const auto start = [&]<class T>(T*) {
      return cuda::add(reinterpret_cast<T*>(sum), reinterpret_cast<const T*>(a),
                       reinterpret_cast<const T*>(b), elements, stream_);
    };
    check(type == dtype::float64 ? start(static_cast<double*>(nullptr))
                                 : start(static_cast<float*>(nullptr)),
          "the kernel of add");
  }
  void synchronize() {
    use(device_);
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  cudaStream_t handle() const { return stream_; }

private:
  int device_;
  cudaStream_t stream_ = nullptr;
  bool is_owner_ = true;
};

namespace {

cudaStream_t handle_of(const device_stream& x) {
  return static_cast<const stream&>(x).handle();
}

class communicator final : public device_communicator {
public:
  communicator(int device, const communicator_id& id, std::uint32_t ranks,
               std::uint32_t rank)
    : device_{device} {
    use(device_);
    ncclUniqueId unique;
    static_assert(sizeof(unique) == sizeof(id));
    std::memcpy(&unique, id.data(), sizeof(unique));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto result = nccl().comm_init_rank_config(
      &handle_, int(ranks), unique, int(rank), &config);
    if (result != ncclSuccess && result != ncclInProgress && handle_)
      abort(); // otherwise the other ranks would wait for this one
    check(result, "ncclCommInitRankConfig");
  }
  ~communicator() override {
    if (!handle_)
      return;
    cudaSetDevice(device_);
    nccl().comm_destroy(handle_);
  }
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  communicator_status status() override {
    const auto result = async_error();
    return result == ncclSuccess      ? communicator_status::ready
           : result == ncclInProgress ? communicator_status::in_progress
                                      : communicator_status::failed;
  }
  std::string error() override {
    return std::string{"NCCL reports: "}
           + nccl().get_error_string(async_error()) + " ("
           + nccl().get_last_error(handle_) + ")";
  }

  void group_start() override {
    use(device_);
    check(nccl().group_start(), "ncclGroupStart");
  }
  void group_end() override { check(nccl().group_end(), "ncclGroupEnd"); }
  /// NCCL keeps the depth of groups for each thread.
  void abandon_group() noexcept override { nccl().group_end(); }
  void all_reduce(std::byte* elements, std::size_t count, dtype type,
                  device_stream& stream) override {
    check(nccl().all_reduce(elements, elements, count, type_of(type), ncclSum,
                            handle_, handle_of(stream)),
          "ncclAllReduce");
  }
  void send(const std::byte* from, std::size_t bytes, std::uint32_t rank,
            device_stream& stream) override {
    check(nccl().send(from, bytes, ncclUint8, int(rank), handle_,
                      handle_of(stream)),
          "ncclSend");
  }
  void receive(std::byte* into, std::size_t bytes, std::uint32_t rank,
               device_stream& stream) override {
    check(nccl().recv(into, bytes, ncclUint8, int(rank), handle_,
                      handle_of(stream)),
          "ncclRecv");
  }

  void finalize() override {
    use(device_);
    check(nccl().comm_finalize(handle_), "ncclCommFinalize");
  }
  void abort() noexcept override {
    cudaSetDevice(device_);
    nccl().comm_abort(std::exchange(handle_, nullptr)); // frees it too
  }

private:
  ncclResult_t async_error() {
    ncclResult_t out = ncclSuccess;
    check(nccl().comm_get_async_error(handle_, &out), "ncclCommGetAsyncError");
    return out;
  }

  int device_;
  ncclComm_t handle_ = nullptr;
};

} // namespace

/// Memory of one device and pinned memory. Freed memory is kept by size.
class communication_device::memory_cache
  : public std::enable_shared_from_this<memory_cache> {
public:
  memory_cache(int device, std::shared_ptr<stream> copies)
    : device_{device}, copies_{std::move(copies)} {}
  ~memory_cache() {
    cudaSetDevice(device_);
    for (auto& [size, blocks] : free_[0])
      for (auto* block : blocks)
        cudaFree(block);
    for (auto& [size, blocks] : free_[1])
      for (auto* block : blocks)
        cudaFreeHost(block);
  }
  memory_cache(const memory_cache&) = delete;
  memory_cache& operator=(const memory_cache&) = delete;

  device_memory allocate(memory_kind kind, std::size_t bytes) {
    const auto size = (bytes / granularity + 1) * granularity;
    return {take(kind, size),
            [cache = shared_from_this(), kind, size](std::byte* block) {
              cache->keep(kind, size, block);
            }};
  }

private:
  using blocks_by_size = std::map<std::size_t, std::vector<std::byte*>>;
  static constexpr std::size_t granularity = 4096;

  void keep(memory_kind kind, std::size_t size, std::byte* block) noexcept {
    const std::lock_guard locked{lock_};
    try {
      free_of(kind)[size].push_back(block);
    } catch (...) { // No memory of the host: the block is never used again.
    }
  }
  blocks_by_size& free_of(memory_kind kind) {
    return free_[kind == memory_kind::pinned];
  }
  std::byte* take(memory_kind kind, std::size_t size) {
    const std::lock_guard locked{lock_};
    if (auto& blocks = free_of(kind)[size]; !blocks.empty()) {
      auto* block = blocks.back();
      blocks.pop_back();
      return block;
    }
    use(device_);
    void* block = nullptr;
    if (kind == memory_kind::pinned) {
      check(cudaHostAlloc(&block, size, cudaHostAllocDefault), "cudaHostAlloc");
    } else {
      // cudaMalloc could wait for the work of all streams.
      check(cudaMallocAsync(&block, size, copies_->handle()),
            "cudaMallocAsync");
      copies_->synchronize();
    }
    return static_cast<std::byte*>(block);
  }

  int device_;
  std::shared_ptr<stream> copies_;
  std::mutex lock_;
  std::array<blocks_by_size, 2> free_; ///< Free blocks: of the device, pinned.
};

namespace {

/// Lets the other cards of this machine access the memory of a card, if they
/// can. NCCL may use buffers of another rank of this process directly.
/// @param count of cards.
void allow_access_to_memory(int device, int count) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device),
        "cudaDeviceGetDefaultMemPool");
  for (int peer = 0; peer < count; ++peer) {
    int is_possible = 0;
    if (peer != device)
      check(cudaDeviceCanAccessPeer(&is_possible, peer, device),
            "cudaDeviceCanAccessPeer");
    if (is_possible == 0)
      continue;
    cudaMemAccessDesc access{};
    access.location = {cudaMemLocationTypeDevice, peer};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess");
  }
}

} // namespace

communication_device::communication_device(std::uint32_t index)
  : index_{static_cast<int>(index)} {
  const auto name = "cuda:" + std::to_string(index);
  int count = 0;
  if (const auto result = cudaGetDeviceCount(&count); result != cudaSuccess)
    throw device_error{
      name + " cannot be used: " + cudaGetErrorString(result) + " ("
      + cudaGetErrorName(result) + "); install a driver for CUDA "
      + std::to_string(CUDART_VERSION / 1000) + "."
      + std::to_string(CUDART_VERSION % 1000 / 10) + ", or use CPU devices"};
  if (index_ >= count)
    throw device_error{name + " does not exist; this machine has "
                       + std::to_string(count) + " CUDA devices"};
  nccl();
  allow_access_to_memory(index_, count);
  copies_ = std::make_shared<stream>(index_);
  cache_ = std::make_shared<memory_cache>(index_, copies_);
}

std::string communication_device::identity() {
  cudaDeviceProp found;
  check(cudaGetDeviceProperties(&found, index_), "cudaGetDeviceProperties");
  constexpr auto digits = "0123456789abcdef";
  std::string out = "GPU-";
  for (const char byte : found.uuid.bytes) {
    const auto value = static_cast<unsigned char>(byte);
    out += {digits[value / 16], digits[value % 16]};
  }
  return out;
}

std::string communication_device::library_version() {
  int code = 0;
  check(nccl().get_version(&code), "ncclGetVersion");
  return nccl_version_text(code);
}

communicator_id communication_device::make_id() {
  use(index_);
  ncclUniqueId unique;
  check(nccl().get_unique_id(&unique), "ncclGetUniqueId");
  communicator_id out;
  std::memcpy(out.data(), &unique, sizeof(unique));
  return out;
}

std::unique_ptr<device_communicator>
communication_device::initialize(const communicator_id& id, std::uint32_t ranks,
                                 std::uint32_t rank) {
  return std::make_unique<communicator>(index_, id, ranks, rank);
}

std::shared_ptr<device_stream> communication_device::make_stream() {
  auto made = std::make_shared<stream>(index_);
  // Loads the kernels of `add`, which is not possible in each driver while a
  // kernel of NCCL waits for another rank.
  const auto memory = allocate(memory_kind::device, sizeof(double));
  check(cudaMemsetAsync(memory.get(), 0, sizeof(double), made->handle()),
        "cudaMemsetAsync");
  for (const auto type : {dtype::float32, dtype::float64})
    made->add(memory.get(), memory.get(), memory.get(), 1, type);
  made->synchronize();
  return made;
}

std::shared_ptr<device_stream> communication_device::compute_stream() {
  return std::make_shared<stream>(
    index_, cuda::compute_stream(
              {device_kind::cuda, static_cast<std::uint32_t>(index_)}));
}

device_memory communication_device::allocate(memory_kind kind,
                                             std::size_t bytes) {
  return cache_->allocate(kind, bytes);
}

tensor communication_device::tensor_of(const device_memory& memory,
                                       const tensor_spec& spec) {
  tensor out{spec};
  copies_->copy(out.raw(), memory.get(), out.bytes());
  copies_->synchronize();
  return out;
}

} // namespace troupe::cuda

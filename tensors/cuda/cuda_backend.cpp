#include "troupe/tensors/cuda/cuda_backend.hpp"

#include "troupe/tensors/cuda/convert.hpp"
#include "troupe/tensors/cuda/device_check.hpp"
#include "troupe/tensors/cuda/event.hpp"
#include "troupe/tensors/cuda/graph.hpp"
#include "troupe/tensors/cuda/kernels/row_sums.hpp"
#include "troupe/tensors/cuda/memory_cache.hpp"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/cuda/pinned_cache.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/cuda/staging_ring.hpp"
#include "troupe/tensors/cuda/update.hpp"
#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace troupe::cuda {

namespace {

/// Maximum size of all blocks of pinned memory that are kept.
constexpr std::size_t max_kept_pinned_bytes = std::size_t{1} << 30;

pinned_cache::source pinned_memory() {
  return {[](std::size_t bytes) -> void* {
            select_used_device();
            void* block = nullptr;
            if (cudaHostAlloc(&block, bytes, cudaHostAllocPortable)
                == cudaSuccess)
              return block;
            cudaGetLastError(); // forgets the error
            return nullptr;
          },
          [](void* block) {
            select_used_device();
            if (cudaFreeHost(block) != cudaSuccess)
              cudaGetLastError(); // forgets the error
          }};
}

/// The stream `compute` of a device, for copies from memory that is not pinned.
class staging_stream final : public staging_ring::stream {
public:
  static constexpr std::size_t pieces = 8, piece_bytes = std::size_t{1} << 20;

  explicit staging_stream(const device& on) : on_{on} {
    compute_stream(on); // selects the device
    for (auto& one : events_)
      one = cuda::make_event();
  }

  void start_copy(std::byte* target, const std::byte* pinned,
                  std::size_t bytes) override {
    check(cudaMemcpyAsync(target, pinned, bytes, cudaMemcpyDefault,
                          compute_stream(on_)),
          "cudaMemcpyAsync");
  }
  void record(std::size_t piece) override {
    check(cudaEventRecord(events_[piece].get(), compute_stream(on_)),
          "cudaEventRecord");
  }
  // An error of a kernel is found by the next wait of the program.
  void wait(std::size_t piece) override {
    check(cudaEventSynchronize(events_[piece].get()), "cudaEventSynchronize");
  }

private:
  const device on_;
  std::array<owned_event, pieces> events_;
};

/// Kernels of all ops.
using kernel_rows = std::unordered_map<const op*, std::span<const op_kernels>>;

kernel_rows all_kernels() {
  kernel_rows out{
    {&ops::conv2d, conv2d_kernels()},
    {&ops::conv2d_max_pool, conv2d_max_pool_kernels()},
    {&ops::max_pool2d, max_pool2d_kernels()},
  };
  for (const auto list : {binary_kernels(), concat_kernels(), dense_kernels(),
                          dropout_kernels(), embedding_lookup_kernels(),
                          reduce_kernels(), sigmoid_cross_entropy_kernels(),
                          softmax_cross_entropy_kernels(), unary_kernels()})
    for (const auto& one : list)
      out.emplace(one.definition, one.rows);
  return out;
}

bool is_pinned(const void* host) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, host) == cudaSuccess)
    return attributes.type == cudaMemoryTypeHost;
  cudaGetLastError(); // forgets the error
  return false;
}

cudaStream_t stream_of(const device& on, device_backend::stream which) {
  return which == device_backend::stream::copy ? copy_stream(on)
                                               : compute_stream(on);
}

class cuda_event final : public device_backend::event {
public:
  explicit cuda_event(const device& on) : on_{on} {
    compute_stream(on); // selects the device
    event_ = cuda::make_event();
  }

  void record(device_backend::stream in) override {
    refuse_in_capture("an event");
    check(cudaEventRecord(event_.get(), stream_of(on_, in)), "cudaEventRecord");
  }
  void block(device_backend::stream later) override {
    refuse_in_capture("an event");
    check(cudaStreamWaitEvent(stream_of(on_, later), event_.get(), 0),
          "cudaStreamWaitEvent");
  }
  void synchronize() override { cuda::synchronize(on_, event_.get()); }
  bool is_done() override {
    refuse_in_capture("an event");
    if (cudaEventQuery(event_.get()) == cudaErrorNotReady) {
      cudaGetLastError(); // forgets that it is not ready
      return false;
    }
    return true;
  }

private:
  const device on_;
  owned_event event_;
};

class cuda_devices final : public device_backend {
public:
  cuda_devices() {
    for (std::uint32_t i = 0; i < device_count(); ++i)
      devices_.emplace_back(device{device_kind::cuda, i});
  }

  std::uint32_t count() const override { return device_count(); }

  std::string describe(std::uint32_t index) override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, static_cast<int>(index)),
          "cudaGetDeviceProperties");
    const auto why = why_unusable(abilities_of(index));
    return std::string{properties.name} + ", "
           + std::to_string(properties.totalGlobalMem >> 20)
           + " MiB, compute capability " + std::to_string(properties.major)
           + "." + std::to_string(properties.minor)
           + (why.empty() ? "" : "; cannot be used: " + why);
  }

  void check_usable(const device& on) override { check_device(on); }

  // -- memory -----------------------------------------------------------------

  std::byte* allocate(const device& on, std::size_t bytes) override {
    return devices_[on.index].memory.allocate(bytes);
  }
  void release(const device& on, std::byte* block,
               std::size_t bytes) noexcept override {
    devices_[on.index].memory.release(block, bytes);
  }
  memory::usage used(const device& on) override {
    return devices_[on.index].memory.used();
  }

  std::byte* allocate_pinned(std::size_t bytes) override {
    return pinned_.allocate(bytes);
  }
  void release_pinned(std::byte* block, std::size_t bytes) noexcept override {
    pinned_.release(block, bytes);
  }

  // -- copies -----------------------------------------------------------------

  void copy(const device& to, std::byte* target, const device& from,
            const std::byte* source, std::size_t bytes) override {
    const bool to_host = to.kind == device_kind::cpu,
               from_host = from.kind == device_kind::cpu;
    const auto& on = to_host ? from : to;
    if (to_host || from_host)
      refuse_in_capture("a copy between the CPU and a device");
    if (!to_host && !from_host && to != from)
      synchronize(from); // so that the elements are there
    const auto stream = compute_stream(on);
    if (!to_host && !from_host && to != from)
      // Also if the devices cannot access the memory of each other.
      check(cudaMemcpyPeerAsync(target, static_cast<int>(to.index), source,
                                static_cast<int>(from.index), bytes, stream),
            "cudaMemcpyPeerAsync");
    else if (from_host && !is_pinned(source))
      return staging_of(on).copy(target, source, bytes);
    else
      check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream),
            "cudaMemcpyAsync");
    if (to_host || from_host || to != from) // `source` may be released
      synchronize(on);
  }
  void start_copy(const device& to, std::byte* target, const device& from,
                  const std::byte* source, std::size_t bytes,
                  device_backend::stream in) override {
    refuse_in_capture("a copy between the CPU and a device");
    const auto& on = to.kind == device_kind::cpu ? from : to;
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault,
                          stream_of(on, in)),
          "cudaMemcpyAsync");
  }
  std::unique_ptr<device_backend::event> make_event(const device& on) override {
    return std::make_unique<cuda_event>(on);
  }
  void convert(const device& on, std::byte* target, dtype to,
               const std::byte* source, dtype from,
               std::size_t count) override {
    check(cuda::convert(target, to, source, from, count, compute_stream(on)),
          "the conversion of elements");
  }
  void fill(const device& on, std::byte* target, dtype type, double value,
            std::size_t count) override {
    check(cuda::fill(target, type, value, count, compute_stream(on)),
          "the kernel of fill");
  }
  void set_zero(const device& on, std::byte* target,
                std::size_t bytes) override {
    check(cudaMemsetAsync(target, 0, bytes, compute_stream(on)),
          "cudaMemsetAsync");
  }

  // -- graphs -----------------------------------------------------------------

  std::unique_ptr<capture> begin_capture(const device& on) override {
    return cuda::begin_capture(on, devices_[on.index].memory);
  }

  // -- kernels ----------------------------------------------------------------

  const op_kernels* find_kernels(const op& definition, dtype type) override {
    const auto at = kernels_.find(&definition);
    if (at == kernels_.end())
      return nullptr;
    for (const auto& row : at->second)
      if (row.type == type)
        return &row;
    return nullptr;
  }

  // -- rows of tensors --------------------------------------------------------

  void add_rows(const sparse_rows& rows, tensor& sum) override {
    cuda::add_rows(rows, sum);
  }
  sparse_rows sum_rows(const sparse_rows& rows) override {
    return cuda::sum_rows(rows);
  }

  // -- training ---------------------------------------------------------------

  void update(const device& on, const rule_coefficients& step, float* values,
              const float* gradient, const std::array<float*, 2>& slots,
              std::size_t n, const std::int32_t* is_skipped) override {
    check(cuda::update(step, values, gradient, slots, n, is_skipped,
                       compute_stream(on)),
          "the kernel of the update");
  }
  void update_rows(const device& on, const rule_coefficients& step,
                   float* values, const sparse_rows& gradient,
                   const std::array<float*, 2>& slots) override {
    const auto rows = gradient.indices().to(on);
    check(
      cuda::update_rows(
        step, values, reinterpret_cast<const float*>(gradient.rows().address()),
        reinterpret_cast<const std::int64_t*>(rows.address()),
        gradient.row_size(), slots, gradient.rows().size(), compute_stream(on)),
      "the kernel of the update of rows");
  }
  void find_exceeding(const device& on, const float* x, std::size_t n,
                      float limit, std::int32_t* found) override {
    check(cuda::find_exceeding(x, n, limit, found, compute_stream(on)),
          "the kernel that checks elements");
  }

private:
  struct state {
    explicit state(const device& on) : memory{on} {}
    memory_cache memory;
    std::once_flag has_staging;
    std::unique_ptr<staging_ring> staging; ///< Null: no copy has needed it.
  };

  staging_ring& staging_of(const device& on) {
    using stream = staging_stream;
    auto& state = devices_[on.index];
    std::call_once(state.has_staging, [&] {
      auto to = std::make_unique<stream>(on);
      auto* const block =
        pinned_.allocate(stream::pieces * stream::piece_bytes);
      state.staging = std::make_unique<staging_ring>(
        std::move(to), block, stream::pieces, stream::piece_bytes);
    });
    return *state.staging;
  }

  std::deque<state> devices_;
  pinned_cache pinned_{pinned_memory(), max_kept_pinned_bytes};
  const kernel_rows kernels_ = all_kernels();
};

} // namespace

device_backend* find_devices() {
  static auto* const devices = device_count() > 0 ? new cuda_devices : nullptr;
  return devices;
}

std::string why_no_devices() {
  return "CUDA finds no device (" + device_search_text()
         + "); check the card and its driver";
}

} // namespace troupe::cuda

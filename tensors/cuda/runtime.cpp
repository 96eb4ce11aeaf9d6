#include "troupe/tensors/cuda/runtime.hpp"

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/cuda/device_check.hpp"
#include "troupe/tensors/cuda/event.hpp"
#include "troupe/tensors/cuda/lost_device.hpp"
#include "troupe/tensors/op.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

namespace troupe::cuda {

namespace {

std::string text_of(cudaError_t result) {
  return std::string{cudaGetErrorString(result)} + " ("
         + cudaGetErrorName(result) + ")";
}

struct device_state {
  std::once_flag once;
  std::atomic<cudaStream_t> stream = nullptr; ///< Set last.
  cudaStream_t copies = nullptr;
  std::atomic<const op*> last = nullptr; ///< The last op with kernels.
  invalid_value* invalid = nullptr;
  std::mutex lock; ///< Guards what the host reads and resets in `invalid`.
};

constexpr std::uint32_t max_devices = 64;

std::atomic<std::uint64_t> waits = 0;
std::atomic<int> used_device = -1; ///< -1: none.

thread_local thread_capture* captured_here = nullptr;

/// Never destroyed, because static tensors could be destroyed later.
device_state& state_of(std::uint32_t index) {
  static auto* const list = new std::array<device_state, max_devices>;
  return list->at(index);
}

/// A handle or a block that a function of CUDA releases.
template <class T, auto release>
struct releaser {
  void operator()(T* x) const { release(x); }
};
using owned_host_block = std::unique_ptr<void, releaser<void, cudaFreeHost>>;
using owned_block = std::unique_ptr<void, releaser<void, cudaFree>>;
using owned_stream =
  std::unique_ptr<CUstream_st, releaser<CUstream_st, cudaStreamDestroy>>;

owned_stream make_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
  return owned_stream{made};
}

/// Makes what a device needs. Nothing remains if a part of it fails.
void make_state(device_state& state, const device& on) {
  if (const auto why = why_unusable(abilities_of(on.index)); !why.empty())
    throw device_error{to_string(on) + " cannot be used: " + why};
  void* block = nullptr;
  check(cudaHostAlloc(&block, sizeof(invalid_value), cudaHostAllocMapped),
        "cudaHostAlloc");
  owned_host_block shared{block};
  auto* const invalid = new (block) invalid_value;
  check(cudaMalloc(&block, sizeof(int)), "cudaMalloc");
  owned_block claim{block};
  invalid->is_claimed = static_cast<int*>(block);
  auto copies = make_stream(), computation = make_stream();
  check(cudaMemsetAsync(block, 0, sizeof(int), computation.get()),
        "cudaMemsetAsync");
  state.invalid = invalid;
  state.copies = copies.release();
  used_device.store(static_cast<int>(on.index));
  state.stream.store(computation.release(), std::memory_order_release);
  shared.release();
  claim.release();
}

/// Makes what a device needs, at its first use.
device_state& open(const device& on) {
  auto& state = state_of(on.index);
  check(cudaSetDevice(static_cast<int>(on.index)), "cudaSetDevice");
  if (state.stream.load(std::memory_order_acquire))
    return state;
  std::call_once(state.once, [&] { make_state(state, on); });
  return state;
}

struct device_search {
  cudaError_t result = cudaSuccess;
  std::uint32_t count = 0;
};

const device_search& found_devices() {
  static const auto found = [] {
    int count = 0;
    const auto result = cudaGetDeviceCount(&count);
    return device_search{
      result, result == cudaSuccess
                ? std::min(static_cast<std::uint32_t>(count), max_devices)
                : 0u};
  }();
  return found;
}

[[noreturn]] void refuse(const invalid_value& x) {
  const auto value = std::to_string(x.value), at = std::to_string(x.position),
             limit = std::to_string(x.limit);
  if (x.what == int(invalid_value::kind::label))
    throw std::logic_error("label " + value + " in row " + at + "; there are "
                           + limit + " classes, from 0");
  throw std::out_of_range("embedding_lookup: id " + at + " is " + value
                          + ", but the table has " + limit + " rows");
}

/// Returns what a kernel has reported, and lets kernels report again. Kernels
/// may run meanwhile: they write nothing before the reset of the claim, which
/// the device makes after the work that it has.
invalid_value take_invalid(device_state& state) {
  const std::lock_guard hold{state.lock};
  auto& shared = *state.invalid;
  const std::atomic_ref<int> what{shared.what};
  invalid_value found;
  found.what = what.load(std::memory_order_acquire);
  if (found.what == 0)
    return found;
  found = shared;
  what.store(0, std::memory_order_release);
  check(cudaMemsetAsync(shared.is_claimed, 0, sizeof(int), state.stream.load()),
        "cudaMemsetAsync");
  return found;
}

std::string failure_of(const device& on, cudaError_t result) {
  const auto* const last = state_of(on.index).last.load();
  return to_string(on) + " has failed: " + text_of(result)
         + (last ? "; the last op that it got was " + std::string{last->name}
                 : std::string{});
}

/// Throws `device_lost` if an error of a call means that its device is lost.
void check_is_not_lost(const device& on, cudaError_t result) {
  if (means_lost_device(result))
    throw device_lost{failure_of(on, result)};
}

/// The device that the calling thread has selected.
device selected_device() {
  int index = 0;
  cudaGetDevice(&index);
  return {
    device_kind::cuda,
    std::min(static_cast<std::uint32_t>(std::max(index, 0)), max_devices - 1)};
}

/// Throws what a wait for a device has found.
void check_wait(const device& on, device_state& state, cudaError_t result) {
  check_is_not_lost(on, result);
  if (result != cudaSuccess)
    throw device_error{failure_of(on, result)};
  if (const auto found = take_invalid(state); found.what != 0)
    refuse(found);
}

} // namespace

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess)
    return;
  cudaGetLastError(); // so that the next call does not report it
  check_is_not_lost(selected_device(), result);
  throw device_error{std::string{call} + " failed: " + text_of(result)};
}

std::uint32_t device_count() {
  return found_devices().count;
}

std::string device_search_text() {
  return text_of(found_devices().result);
}

cudaStream_t uncaptured_stream(const device& on) {
  return open(on).stream.load(std::memory_order_relaxed);
}

cudaStream_t compute_stream(const device& on) {
  const auto stream = uncaptured_stream(on);
  const auto* const capture = find_capture(on);
  return capture ? capture->stream : stream;
}

cudaStream_t compute_stream(const op_call& call) {
  state_of(call.on.index)
    .last.store(call.definition, std::memory_order_relaxed);
  return compute_stream(call.on);
}

thread_capture* find_capture(const device& on) {
  return captured_here && captured_here->on == on ? captured_here : nullptr;
}

void set_capture(thread_capture* next) {
  if (captured_here && next)
    throw std::logic_error("a thread that captures a graph begins another one");
  captured_here = next;
}

void refuse_in_capture(const char* call) {
  if (captured_here)
    throw device_error{std::string{call} + " cannot be in a graph of "
                       + to_string(captured_here->on)
                       + ": it needs the host in each step"};
}

cudaStream_t copy_stream(const device& on) {
  return open(on).copies;
}

void select_used_device() {
  if (const auto index = used_device.load(); index >= 0)
    cudaSetDevice(index);
}

void check_launch(const op_call& call, cudaError_t result) {
  check_is_not_lost(call.on, result);
  if (result != cudaSuccess)
    throw device_error{std::string{call.definition->name} + " on "
                       + to_string(call.on)
                       + " could not be started: " + text_of(result)};
}

void synchronize(const device& on) {
  refuse_in_capture("a wait for a device");
  // An event, so that the thread does not wait for the work that others give to
  // the stream meanwhile. By device.
  thread_local std::map<std::uint32_t, owned_event> events;
  auto& state = open(on);
  auto& given = events[on.index];
  if (!given)
    given = make_event();
  waits.fetch_add(1, std::memory_order_relaxed);
  auto result = cudaEventRecord(given.get(), state.stream);
  if (result == cudaSuccess)
    result = cudaEventSynchronize(given.get());
  check_wait(on, state, result);
}

void synchronize(const device& on, cudaEvent_t event) {
  refuse_in_capture("a wait for a device");
  auto& state = open(on);
  waits.fetch_add(1, std::memory_order_relaxed);
  check_wait(on, state, cudaEventSynchronize(event));
}

void check_device(const device& on) {
  const auto stream = state_of(on.index).stream.load(std::memory_order_acquire);
  if (!stream)
    return; // this process has not used it
  cudaSetDevice(static_cast<int>(on.index));
  const auto result = cudaStreamQuery(stream);
  cudaGetLastError(); // forgets that the stream has work
  if (query_means_lost_device(result))
    throw device_lost{failure_of(on, result)};
}

std::uint64_t synchronizations() {
  return waits.load(std::memory_order_relaxed);
}

invalid_value* invalid_value_of(const device& on) {
  return open(on).invalid;
}

} // namespace troupe::cuda

#include "troupe/tensors/op_threads.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/onednn/onednn.hpp"

#include <algorithm>
#include <atomic>
#include <omp.h>

// Runs a function on the threads of an OpenMP team. The threads belong to the
// calling thread, and oneDNN uses the same threads. Compilers emit calls of
// this function for a parallel region of OpenMP. A direct call passes the
// argument in a register. The region passes it in memory that ThreadSanitizer
// would report, because it does not know libgomp. @source libgomp's manual,
// 8.4.
extern "C" void GOMP_parallel(void (*fn)(void*), void* argument,
                              unsigned threads, unsigned flags);

namespace troupe::detail {

namespace {

/// A call of `run_ranges`, which the threads of the team read. The counters
/// order the accesses of the threads for ThreadSanitizer, which does not know
/// libgomp. So the object has static storage, which no thread initializes.
struct range_call {
  std::atomic<std::size_t> begun, ended;
  std::size_t n, multiple;
  void (*fn)(const void*, std::size_t, std::size_t);
  const void* context;
};

thread_local range_call current;

/// Runs the range of one thread of the team.
void run_range(const range_call& call, std::size_t thread,
               std::size_t threads) {
  const auto multiples = (call.n + call.multiple - 1) / call.multiple;
  const auto first = [&](std::size_t t) {
    return std::min(call.n, multiples * t / threads * call.multiple);
  };
  if (const auto begin = first(thread), end = first(thread + 1); begin < end)
    call.fn(call.context, begin, end);
}

void run_on_thread(void* argument) {
  auto& call = *static_cast<range_call*>(argument);
  call.begun.load(std::memory_order_acquire);
  const auto thread = std::size_t(omp_get_thread_num());
  const auto threads = std::size_t(omp_get_num_threads());
  run_range(call, thread, threads);
  call.ended.fetch_add(1, std::memory_order_acq_rel);
}

} // namespace

void run_on_op_threads(void (*fn)(void*), void* argument, int threads) {
  GOMP_parallel(fn, argument, static_cast<unsigned>(threads), 0);
}

bool has_several_op_threads() noexcept {
  return onednn::threads() > 1 && omp_in_parallel() == 0;
}

void run_ranges(std::size_t n, std::size_t multiple,
                void (*fn)(const void*, std::size_t, std::size_t),
                const void* context) {
  flush_denormals::include_op_threads();
  auto& call = current;
  call.n = n;
  call.multiple = multiple;
  call.fn = fn;
  call.context = context;
  call.begun.fetch_add(1, std::memory_order_release);
  run_on_op_threads(run_on_thread, &call, onednn::threads());
  call.ended.load(std::memory_order_acquire);
}

} // namespace troupe::detail

#pragma once

#include <cstddef>

namespace troupe {

// Ops whose elements are independent divide them among the threads that
// `use_threads` gives to the calling thread. oneDNN uses the same threads. The
// bits of a result do not depend on the number of threads, because each element
// is computed by the same operations in every division.

/// Minimum number of elements of a loop that reads or writes a few floats per
/// element, for which several threads are faster than one. Waking the threads
/// takes as long as such a loop over several thousand elements.
inline constexpr std::size_t min_parallel_elements = 32 * 1024;

namespace detail {

/// Calls `fn(argument)` at the same time on the calling thread and on the other
/// threads of its ops.
/// @param threads Number of these threads, including the calling thread.
void run_on_op_threads(void (*fn)(void* argument), void* argument, int threads);

/// Runs `fn(context, begin, end)` for the ranges of `for_ranges`.
void run_ranges(std::size_t n, std::size_t multiple,
                void (*fn)(const void* context, std::size_t begin,
                           std::size_t end),
                const void* context);

/// Returns true if ops of the calling thread use several threads, and the
/// thread does not run a range of another op.
bool has_several_op_threads() noexcept;

} // namespace detail

/// Divides [0, n) into one range for each thread of the caller's ops, and calls
/// `fn(begin, end)` for each range that is not empty. The calls run at the same
/// time, and they flush denormals like the calling thread. Returns when all
/// calls have returned.
/// @param elements Number of elements that all calls compute together. Below
///        `min_parallel_elements`, the calling thread calls `fn(0, n)`.
/// @param fn Must not throw and must not use the context of a replica.
/// @param multiple Each range begins at a multiple of this number.
template <class F>
void for_ranges(std::size_t n, std::size_t elements, const F& fn,
                std::size_t multiple = 1) {
  if (elements < min_parallel_elements || n <= multiple
      || !detail::has_several_op_threads()) {
    if (n > 0)
      fn(std::size_t{0}, n);
    return;
  }
  detail::run_ranges(
    n, multiple,
    [](const void* context, std::size_t begin, std::size_t end) {
      (*static_cast<const F*>(context))(begin, end);
    },
    &fn);
}

/// Calls `fn(begin, end)` for ranges of n elements, each of which begins at a
/// multiple of 64 elements.
template <class F>
void for_elements(std::size_t n, const F& fn) {
  for_ranges(n, n, fn, 64);
}

} // namespace troupe

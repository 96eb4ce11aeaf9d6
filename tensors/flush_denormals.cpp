#include "troupe/tensors/flush_denormals.hpp"

#include "troupe/tensors/onednn/onednn.hpp"
#include "troupe/tensors/op_threads.hpp"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

namespace troupe {

namespace {

#if defined(__x86_64__)

/// FTZ and DAZ of MXCSR. @source Intel SDM, volume 1, 10.2.3.
constexpr std::uint64_t flush_bits = 0x8040;

std::uint64_t control_register() {
  return _mm_getcsr();
}

void set_control_register(std::uint64_t value) {
  _mm_setcsr(static_cast<unsigned>(value));
}

#elif defined(__aarch64__)

/// FZ of FPCR. @source Arm Architecture Reference Manual, C5.2.8.
constexpr std::uint64_t flush_bits = 1u << 24;

std::uint64_t control_register() {
  std::uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}

void set_control_register(std::uint64_t value) {
  asm volatile("msr fpcr, %0" : : "r"(value));
}

#else

constexpr std::uint64_t flush_bits = 0;

std::uint64_t control_register() {
  return 0;
}

void set_control_register(std::uint64_t) {}

#endif

std::uint64_t mode() {
  return control_register() & flush_bits;
}

/// Keeps all other bits, such as those of the exceptions that have occurred.
void set_mode(std::uint64_t bits) {
  if (const auto all = control_register(); (all & flush_bits) != bits)
    set_control_register((all & ~flush_bits) | bits);
}

/// Number of threads that ops of this thread use and that flush denormals by
/// `include_op_threads`. Zero: none.
thread_local int included_threads = 0;

void set_mode_of_op_threads(std::uint64_t bits, int threads) {
  detail::run_on_op_threads(
    [](void* x) { set_mode(reinterpret_cast<std::uintptr_t>(x)); },
    reinterpret_cast<void*>(static_cast<std::uintptr_t>(bits)), threads);
}

} // namespace

flush_denormals::flush_denormals() noexcept : previous_{mode()} {
  set_mode(flush_bits);
}

flush_denormals::~flush_denormals() {
  if (previous_ != flush_bits && included_threads > 0) {
    set_mode_of_op_threads(previous_, included_threads);
    included_threads = 0;
  }
  set_mode(previous_);
}

void flush_denormals::include_op_threads() {
  const auto threads = onednn::threads();
  if (flush_bits == 0 || mode() != flush_bits || threads <= 1
      || threads <= included_threads)
    return;
  set_mode_of_op_threads(flush_bits, threads);
  included_threads = threads;
}

} // namespace troupe

// Counts allocated memory. With a sanitizer it uses the sanitizer's malloc
// hooks, otherwise it replaces `operator new`.
#include "troupe/tests/fuzz/fuzz.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TROUPE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_SANITIZED
#endif
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <new>

#ifdef TROUPE_SANITIZED
// Functions of the runtime library of both compilers. Only clang has a header
// that declares them, <sanitizer/allocator_interface.h>.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
  void (*on_malloc)(const volatile void*, std::size_t),
  void (*on_free)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void* x);
#endif

namespace troupe::fuzz {

namespace {

std::atomic<std::size_t> live = 0, peak = 0;

void add(std::size_t size) {
  const auto now = live += size;
  if (now > peak)
    peak = now; // without a race: a target has one thread
}

} // namespace

std::size_t live_bytes() {
  return live;
}

std::size_t peak_bytes() {
  return peak;
}

void forget_peak() {
  peak = live.load();
}

} // namespace troupe::fuzz

using namespace troupe::fuzz;

#ifdef TROUPE_SANITIZED

namespace {

void on_malloc(const volatile void*, std::size_t size) {
  add(size);
}

void on_free(const volatile void* x) {
  if (x != nullptr)
    live -= __sanitizer_get_allocated_size(x);
}

[[maybe_unused]] const auto installed =
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);

} // namespace

#else

void* operator new(std::size_t size) {
  auto* x = std::malloc(std::max<std::size_t>(size, 1));
  if (x == nullptr)
    throw std::bad_alloc{};
  add(::malloc_usable_size(x));
  return x;
}

// g++ warns of an inlined `free` that it does not match `operator new`.
[[gnu::noinline]] void operator delete(void* x) noexcept {
  live -= ::malloc_usable_size(x);
  std::free(x);
}

void operator delete(void* x, std::size_t) noexcept {
  operator delete(x);
}

#endif

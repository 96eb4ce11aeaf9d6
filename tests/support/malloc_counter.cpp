#include "troupe/tests/support/malloc_counter.hpp"

#include <cerrno>
#include <cstddef>

// Aliases of glibc's own functions.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* at, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

constinit thread_local std::uint64_t calls_so_far = 0, bytes_so_far = 0;

void count(std::size_t size) {
  ++calls_so_far;
  bytes_so_far += size;
}

} // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  count(size);
  return __libc_malloc(size);
}

void* calloc(std::size_t n, std::size_t size) noexcept {
  count(n * size);
  return __libc_calloc(n, size);
}

void* realloc(void* at, std::size_t size) noexcept {
  count(size);
  return __libc_realloc(at, size);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept {
  count(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** out, std::size_t alignment,
                   std::size_t size) noexcept {
  count(size);
  auto* at = __libc_memalign(alignment, size);
  if (!at)
    return ENOMEM;
  *out = at;
  return 0;
}

} // extern "C"

namespace troupe::testing {

malloc_counter::malloc_counter()
  : calls_before_{calls_so_far}, bytes_before_{bytes_so_far} {}

std::uint64_t malloc_counter::calls() const {
  return calls_so_far - calls_before_;
}

std::uint64_t malloc_counter::bytes() const {
  return bytes_so_far - bytes_before_;
}

} // namespace troupe::testing

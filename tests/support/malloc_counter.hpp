#pragma once

#include <cstdint>

namespace troupe::testing {

/// Counts the calls of malloc, calloc, realloc and their aligned variants that
/// the calling thread makes during the lifetime of the counter. Counters can be
/// nested. The library troupe_malloc_counter replaces these functions in a
/// program that links it (glibc only).
class malloc_counter {
public:
  malloc_counter();
  malloc_counter(const malloc_counter&) = delete;
  malloc_counter& operator=(const malloc_counter&) = delete;

  std::uint64_t calls() const;
  std::uint64_t bytes() const;

private:
  std::uint64_t calls_before_, bytes_before_;
};

/// True if oneDNN calls malloc in every matrix product, to pack its operands.
/// oneDNN's kernels for AVX-512 do not call malloc.
inline bool products_call_malloc() {
#if defined(__x86_64__)
  return !__builtin_cpu_supports("avx512f");
#else
  return true;
#endif
}

} // namespace troupe::testing

#include "troupe/net/base/memory_copy.hpp"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::net {

namespace {

#if defined(__x86_64__)
constexpr std::size_t at_once = 128;

/// Copies with AVX. @pre `bytes` is a multiple of `block_bytes`.
__attribute__((target("avx"))) void
by_vectors(const std::byte* from, std::byte* to, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += at_once) {
    __m256i x[4];
    for (std::size_t k = 0; k < 4; ++k)
      x[k] =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32 * k));
    for (std::size_t k = 0; k < 4; ++k)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i + 32 * k), x[k]);
  }
}
#endif

} // namespace

void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  std::size_t done = 0;
#if defined(__x86_64__)
  static const bool has_vectors = __builtin_cpu_supports("avx");
  if (has_vectors && from.size() >= 1024) {
    done = from.size() / at_once * at_once;
    by_vectors(from.data(), to.data(), done);
  }
#endif
  if (done < from.size())
    std::memcpy(to.data() + done, from.data() + done, from.size() - done);
}

} // namespace troupe::net

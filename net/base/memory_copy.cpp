#include "troupe/net/base/memory_copy.hpp"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::net {

namespace {

#if defined(__x86_64__)
constexpr std::size_t block_bytes = 128;

/// Copies with AVX. @pre `bytes` is a multiple of `block_bytes`.
__attribute__((target("avx"))) void
copy_by_vectors(const std::byte* source, std::byte* target, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += block_bytes) {
    __m256i vectors[4];
    for (std::size_t k = 0; k < 4; ++k)
      vectors[k] = _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(source + i + 32 * k));
    for (std::size_t k = 0; k < 4; ++k)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i + 32 * k),
                          vectors[k]);
  }
}
#endif

} // namespace

void copy_large(std::span<const std::byte> source,
                std::span<std::byte> target) {
  std::size_t done = 0;
#if defined(__x86_64__)
  static const bool has_vectors = __builtin_cpu_supports("avx");
  if (has_vectors && source.size() >= 1024) {
    done = source.size() / block_bytes * block_bytes;
    copy_by_vectors(source.data(), target.data(), done);
  }
#endif
  if (done < source.size())
    std::memcpy(target.data() + done, source.data() + done,
                source.size() - done);
}

} // namespace troupe::net

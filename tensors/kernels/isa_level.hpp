#pragma once

// Vectors as wide as the registers of the instruction-set level. Only
// tensors/kernels/*.cpp include this file. Everything here has internal
// linkage. Otherwise the linker would keep one copy of a function for all
// levels, compiled with the instructions of one of them.

#include "troupe/tensors/base/kernels.hpp"

#include <utility>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace troupe::TROUPE_LEVEL {

#if defined(__AVX512F__)
constexpr std::size_t width = 16;
#define TROUPE_LANE_NUMBERS                                                    \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
#elif defined(__AVX2__)
constexpr std::size_t width = 8;
#define TROUPE_LANE_NUMBERS                                                    \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#else
constexpr std::size_t width = 4;
#define TROUPE_LANE_NUMBERS                                                    \
  { 0, 1, 2, 3 }
#endif

typedef float vec __attribute__((vector_size(width * 4)));
typedef std::int32_t ints __attribute__((vector_size(width * 4)));
typedef std::int32_t aliased_int __attribute__((may_alias));
typedef float unaligned_vec
  __attribute__((vector_size(width * 4), aligned(4), may_alias));

/// How many elements a load or a store moves: `full`, a whole vector;
/// `partial`, only the first `n` lanes, at the end of a buffer.
struct full {};
struct partial {
  std::size_t n;
};

static inline vec load(const float* from, full = {}) {
  return *reinterpret_cast<const unaligned_vec*>(from);
}

static inline void store(float* to, vec x, full = {}) {
  *reinterpret_cast<unaligned_vec*>(to) = x;
}

#if defined(__AVX512F__)
static inline __mmask16 mask_of(partial k) {
  return static_cast<__mmask16>((1u << k.n) - 1);
}
static inline vec load(const float* from, partial k) {
  return _mm512_maskz_loadu_ps(mask_of(k), from);
}
static inline void store(float* to, vec x, partial k) {
  _mm512_mask_storeu_ps(to, mask_of(k), x);
}
#elif defined(__AVX2__)
static inline __m256i mask_of(partial k) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(k.n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec load(const float* from, partial k) {
  return _mm256_maskload_ps(from, mask_of(k));
}
static inline void store(float* to, vec x, partial k) {
  _mm256_maskstore_ps(to, mask_of(k), x);
}
#else
static inline vec load(const float* from, partial k) {
  vec x{};
  for (std::size_t i = 0; i < k.n; ++i)
    x[i] = from[i];
  return x;
}
static inline void store(float* to, vec x, partial k) {
  for (std::size_t i = 0; i < k.n; ++i)
    to[i] = x[i];
}
#endif

typedef std::uint16_t half_ints __attribute__((vector_size(width * 2)));
typedef std::uint16_t unaligned_half_ints
  __attribute__((vector_size(width * 2), aligned(2), may_alias));

/// Loads bfloat16.
static inline vec load(const std::uint16_t* from, full = {}) {
  const half_ints bits = *reinterpret_cast<const unaligned_half_ints*>(from);
  return (vec)(__builtin_convertvector(bits, ints) << 16);
}
static inline vec load(const std::uint16_t* from, partial k) {
  half_ints bits{};
  for (std::size_t i = 0; i < k.n; ++i)
    bits[i] = from[i];
  return (vec)(__builtin_convertvector(bits, ints) << 16);
}

static inline vec splat(float x) {
  return x - vec{};
}

/// Returns x. After a partial load, replaces the lanes that the load did not
/// read by the value `with`.
static inline vec padded(vec x, float, full) {
  return x;
}
static inline vec padded(vec x, float with, partial k) {
  constexpr ints numbers = TROUPE_LANE_NUMBERS;
  return numbers < static_cast<std::int32_t>(k.n) ? x : splat(with);
}

static inline vec relu_of(vec x) {
  return x <= 0 ? vec{} : x; // Keeps NaN.
}

namespace {

/// Calls `body(i, k)` for vectors that cover [0, n). i is the first element of
/// the vector; k is `full` or `partial`.
template <class F>
inline void in_vectors(std::size_t n, F body) {
  std::size_t i = 0;
  for (; i + width <= n; i += width)
    body(i, full{});
  if (i < n)
    body(i, partial{n - i});
}

/// Rotates the lanes: lane i of the result is lane (i + offset) % width of x.
template <std::size_t offset, std::size_t... i>
inline vec rotated(vec x, std::index_sequence<i...>) {
  return __builtin_shufflevector(x, x, ((i + offset) % width)...);
}

/// Reduces a vector to one value: combines lane i with lane i + half, then with
/// lane i + half / 2, and so on. The caller passes half = width / 2.
template <std::size_t half, class F>
inline float folded(vec x, F combine) {
  x = combine(x, rotated<half>(x, std::make_index_sequence<width>{}));
  if constexpr (half > 1)
    return folded<half / 2>(x, combine);
  else
    return x[0];
}

/// 16 running sums, in as many vectors as the level needs.
struct lanes {
  static constexpr std::size_t count = 16;
  vec vectors[count / width] = {};

  /// Reduces the sums to one value: combines lane i with lane i + 8, then with
  /// lane i + 4, and so on. `combine` takes and returns vectors.
  template <class F>
  inline float fold(F combine) const {
    vec x[count / width];
    for (std::size_t i = 0; i < count / width; ++i)
      x[i] = vectors[i];
    for (auto n = count / width / 2; n > 0; n /= 2)
      for (std::size_t i = 0; i < n; ++i)
        x[i] = combine(x[i], x[i + n]);
    return folded<width / 2>(x[0], combine);
  }
};

/// Calls `body(v, i, k)` for vectors that cover [0, n). i is the first element
/// of the vector; k is `full` or `partial`. `body` combines the vector with
/// vector v of `lanes`, so element j always belongs to lane j % 16.
template <class F>
inline void in_lanes(std::size_t n, F body) {
  constexpr auto vectors = lanes::count / width;
  std::size_t i = 0;
  for (; i + lanes::count <= n; i += lanes::count)
    for (std::size_t v = 0; v < vectors; ++v)
      body(v, i + v * width, full{});
  for (std::size_t v = 0; i < n; ++v, i += width)
    if (i + width <= n)
      body(v, i, full{});
    else
      body(v, i, partial{n - i});
}

} // namespace

} // namespace troupe::TROUPE_LEVEL

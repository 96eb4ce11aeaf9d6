#pragma once

#include "troupe/tensors/base/bfloat16.hpp"
#include "troupe/tensors/base/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <cuda_bf16.h>
#include <type_traits>

// How kernels load and store elements. Only .cu and .cuh files include this
// file.

namespace troupe::cuda {

// -- numbers ------------------------------------------------------------------

// The number with which kernels compute: elements of bfloat16 are computed in
// float.

__host__ __device__ inline float number(float x) {
  return x;
}
__host__ __device__ inline double number(double x) {
  return x;
}
__host__ __device__ inline float number(bfloat16 x) {
  return static_cast<float>(x);
}
__host__ __device__ inline float number(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <class T>
using number_of = decltype(number(T{}));

/// Converts a number to an element, rounded once.
template <class T>
__host__ __device__ T element(number_of<T> x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else
    return T(x);
}

/// Calls `fn(T{})`, where T is the element type of a float dtype.
template <class F>
void with_element_type(dtype type, const F& fn) {
  if (type == dtype::bfloat16)
    fn(bfloat16{});
  else if (type == dtype::float64)
    fn(double{});
  else
    fn(float{});
}

// A flag of the compiler flushes denormals of float32 to zero. There is none
// for float64, so kernels pass operands and results of their arithmetic to this
// function.

__host__ __device__ inline float flushed(float x) {
  return x;
}
__host__ __device__ inline double flushed(double x) {
  constexpr double min_normal = 0x1p-1022;
  return x > -min_normal && x < min_normal ? (x < 0 ? -0.0 : x * 0) : x;
}

/// Returns a + b.
template <class Number>
__host__ __device__ Number sum_of(Number a, Number b) {
  return flushed(flushed(a) + flushed(b));
}

/// Adds to a gradient, or sets it.
template <class T>
__device__ void put(T& to, number_of<T> value, bool accumulates) {
  to = element<T>(accumulates ? sum_of(number(to), value) : flushed(value));
}

// -- packs --------------------------------------------------------------------

/// Neighboring elements that a thread loads or stores by as few accesses of
/// memory as possible, of 16 bytes at most.
template <class T, int lanes>
struct alignas(sizeof(T) * lanes < 16 ? sizeof(T) * lanes : 16) pack {
  T lane[lanes];
};

template <int lanes, class T>
__device__ const pack<T, lanes>& pack_at(const T* elements, std::size_t i) {
  return *reinterpret_cast<const pack<T, lanes>*>(elements + i);
}
template <int lanes, class T>
__device__ pack<T, lanes>& pack_at(T* elements, std::size_t i) {
  return *reinterpret_cast<pack<T, lanes>*>(elements + i);
}

/// True if the packs of all these elements are aligned.
template <int lanes, class... T>
bool are_aligned(const T*... elements) {
  return (
    ...
    && (reinterpret_cast<std::uintptr_t>(elements) % alignof(pack<T, lanes>)
        == 0));
}

} // namespace troupe::cuda

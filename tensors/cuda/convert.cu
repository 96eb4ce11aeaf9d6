#include "troupe/tensors/base/convert.hpp"

#include "troupe/tensors/cuda/convert.hpp"
#include "troupe/tensors/cuda/launch.cuh"
#include "troupe/tensors/flush_denormals.hpp"

#include <type_traits>

namespace troupe::cuda {

namespace {

/// `bfloat16{x}`, rounded once: first to the float towards zero, with an odd
/// last bit if it is not x.
__device__ bfloat16 to_bfloat16(double x) {
  const auto near = __double2float_rz(x);
  if (x != x || static_cast<double>(near) == x)
    return bfloat16{near};
  return bfloat16{__int_as_float(__float_as_int(near) | 1)};
}

template <class To, class From>
__device__ To convert_one(From x) {
  if constexpr (std::is_same_v<From, bfloat16>)
    return convert_one<To>(static_cast<float>(x));
  else if constexpr (std::is_same_v<To,
                                    bfloat16> && std::is_same_v<From, float>)
    return bfloat16{x};
  else if constexpr (std::is_same_v<To, bfloat16>)
    return to_bfloat16(static_cast<double>(x));
  else
    return troupe::convert<To>(x);
}

template <class To, class From>
cudaError_t start(void* to, const void* from, std::size_t count,
                  cudaStream_t stream) {
  auto* const target = static_cast<To*>(to);
  const auto* const source = static_cast<const From*>(from);
  return for_each(stream, count, [=] __device__(std::size_t i) {
    target[i] = convert_one<To>(source[i]);
  });
}

template <class From>
cudaError_t convert_from(void* to, dtype to_type, const void* from,
                         std::size_t count, cudaStream_t stream) {
  switch (to_type) {
    case dtype::float32:
      return start<float, From>(to, from, count, stream);
    case dtype::float64:
      return start<double, From>(to, from, count, stream);
    case dtype::int32:
      return start<std::int32_t, From>(to, from, count, stream);
    case dtype::int64:
      return start<std::int64_t, From>(to, from, count, stream);
    case dtype::uint8:
      return start<std::uint8_t, From>(to, from, count, stream);
    case dtype::boolean:
      return start<bool, From>(to, from, count, stream);
    case dtype::bfloat16:
      return start<bfloat16, From>(to, from, count, stream);
  }
  return cudaErrorInvalidValue;
}

template <class T>
cudaError_t start_fill(void* to, double value, std::size_t count,
                       cudaStream_t stream) {
  auto* const target = static_cast<T*>(to);
  const auto element = troupe::convert<T>(value);
  return for_each(stream, count,
                  [=] __device__(std::size_t i) { target[i] = element; });
}

} // namespace

cudaError_t fill(void* to, dtype type, double value, std::size_t count,
                 cudaStream_t stream) {
  const flush_denormals flushing;
  return with_dtype(
    type, [&]<class T>(T) { return start_fill<T>(to, value, count, stream); });
}

cudaError_t convert(void* to, dtype to_type, const void* from, dtype from_type,
                    std::size_t count, cudaStream_t stream) {
  return with_dtype(from_type, [&]<class From>(From) {
    return convert_from<From>(to, to_type, from, count, stream);
  });
}

} // namespace troupe::cuda

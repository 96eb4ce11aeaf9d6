#include "troupe/tensors/convert_elements.hpp"

#include "troupe/tensors/base/convert.hpp"
#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"

#include <algorithm>

namespace troupe {

namespace {

void to_bfloat16(const tensor& from, tensor& to) {
  const auto* x = from.data<float>().data();
  auto* bits = reinterpret_cast<std::uint16_t*>(to.raw());
  for_elements(to.size(), [&](std::size_t begin, std::size_t end) {
    kernels().to_bfloat16(bits + begin, x + begin, end - begin);
  });
}

void from_bfloat16(const tensor& from, tensor& to) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from.raw());
  auto* x = to.mutable_data<float>().data();
  for_elements(to.size(), [&](std::size_t begin, std::size_t end) {
    kernels().from_bfloat16(x + begin, bits + begin, end - begin);
  });
}

} // namespace

void convert_elements(const tensor& from, tensor& to) {
  if (to.size() == 0)
    return;
  if (const auto on = to.device(); on.kind != device_kind::cpu) {
    captured_operands::keep(from);
    captured_operands::keep(to);
    return backend_of(on).convert(on, to.address(), to.type(), from.address(),
                                  from.type(), to.size());
  }
  if (from.type() == dtype::float32 && to.type() == dtype::bfloat16)
    return to_bfloat16(from, to);
  if (from.type() == dtype::bfloat16 && to.type() == dtype::float32)
    return from_bfloat16(from, to);
  const flush_denormals flushing;
  with_dtype(from.type(), [&]<class From>(From) {
    with_dtype(to.type(), [&]<class To>(To) {
      std::ranges::transform(from.data<From>(), to.mutable_data<To>().begin(),
                             [](From x) { return convert<To>(x); });
    });
  });
}

} // namespace troupe

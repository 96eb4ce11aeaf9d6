#include "troupe/tensors/ops/add_in_place.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/check.hpp"

namespace troupe {

void add_in_place(tensor& sum, const tensor& x) {
  const std::array specs{sum.spec(), x.spec()};
  ops::require(specs[0] == specs[1], "two tensors of one shape and dtype",
               specs);
  const flush_denormals flushing;
  if (sum.type() == dtype::float32) {
    auto* into = sum.mutable_data<float>().data();
    const auto* from = x.data<float>().data();
    for_elements(x.size(), [&](std::size_t begin, std::size_t end) {
      kernels().add_into(into + begin, from + begin, end - begin);
    });
    return;
  }
  with_dtype(sum.type(), [&]<class T>(T) {
    auto to = sum.mutable_data<T>();
    const auto from = x.data<T>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<T>(to[i] + from[i]);
  });
}

void put_gradient(op_call& call, std::size_t i, const tensor& gradient) {
  if (call.accumulates(i))
    add_in_place(call.grad_in[i], gradient);
  else
    call.grad_in[i].copy_from(gradient);
}

} // namespace troupe

#include "troupe/tensors/ops/add_in_place.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/kernels.hpp"
#include "troupe/tensors/ops/check.hpp"

namespace troupe {

void add_in_place(tensor& sum, const tensor& x) {
  const std::array specs{sum.spec(), x.spec()};
  ops::require(specs[0] == specs[1], "two tensors of one shape and dtype",
               specs);
  const flush_denormals flushing;
  if (sum.type() == dtype::float32) {
    kernels().add_into(sum.mutable_data<float>().data(), x.data<float>().data(),
                       x.size());
    return;
  }
  auto to = sum.mutable_data<double>();
  const auto from = x.data<double>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] += from[i];
}

void put_gradient(op_call& call, std::size_t i, const tensor& gradient) {
  if (call.accumulates(i))
    add_in_place(call.grad_in[i], gradient);
  else
    call.grad_in[i].copy_from(gradient);
}

} // namespace troupe

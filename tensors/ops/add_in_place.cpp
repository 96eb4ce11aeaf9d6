#include "troupe/tensors/ops/add_in_place.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/check.hpp"

namespace troupe {

namespace {

/// Runs the kernel of the op `add`, whose result may be one of its inputs.
void add_on_device(tensor& sum, const tensor& x) {
  const auto on = sum.device();
  const auto refuse = [&](const std::string& why) {
    throw std::logic_error("cannot add " + to_string(x.spec()) + " to "
                           + to_string(sum.spec()) + " on " + to_string(on)
                           + ": " + why);
  };
  if (x.device() != on)
    refuse("it is on " + to_string(x.device()) + "; copy it with to()");
  const auto* const found = kernels_on(on, ops::add, sum.type());
  if (!found)
    refuse("the device has no kernel for that");
  sum.mutable_address(); // checks that no tape needs the elements
  if (found->type != sum.type()) {
    auto wide = sum.detach().as(found->type);
    add_on_device(wide, x.detach().as(found->type));
    sum.copy_from(wide.as(sum.type()));
    return;
  }
  const std::array in{sum.detach(), x.detach()};
  op_call call;
  call.definition = &ops::add;
  call.type = found->type;
  call.on = on;
  call.in = in;
  call.out.push_back(in[0]);
  captured_operands::keep(call);
  const flush_denormals flushing;
  found->forward(call);
}

} // namespace

void add_in_place(tensor& sum, const tensor& x) {
  const std::array specs{sum.spec(), x.spec()};
  ops::require(specs[0] == specs[1], "two tensors of one shape and dtype",
               specs);
  if (sum.device().kind != device_kind::cpu)
    return add_on_device(sum, x);
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

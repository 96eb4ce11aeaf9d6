#include "troupe/tensors/ops/max_pool2d.hpp"

#include "troupe/tensors/cuda/kernels/pooling.hpp"
#include "troupe/tensors/cuda/ops/kernels.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/ops/geometry.hpp"

#include <array>

namespace troupe::cuda {

namespace {

pool_window geometry(const op_call& c) {
  return ops::geometry(c.in[0].dims(), c.options.as<pool_options>());
}

std::uint8_t* indices_of(const op_call& c) {
  return reinterpret_cast<std::uint8_t*>(c.saved[0].address());
}

void forward(op_call& c) {
  c.saved.push_back(tensor{{c.out[0].dims(), dtype::uint8}, c.on});
  check(max_pool(geometry(c), c.type, c.in[0].address(),
                 c.out[0].mutable_address(), indices_of(c),
                 compute_stream(c.on)),
        "the kernel of max_pool2d");
}

void backward(op_call& c) {
  if (c.wants(0))
    check(max_pool_backward(geometry(c), c.type, c.grad_out[0].address(),
                            indices_of(c), c.grad_in[0].mutable_address(),
                            c.accumulates(0), compute_stream(c.on)),
          "the kernel for the gradient of max_pool2d");
}

constexpr op_kernels row(dtype type) {
  return {.type = type,
          .forward = forward,
          .backward = backward,
          .device = device_kind::cuda};
}

constexpr std::array rows{row(dtype::float32), row(dtype::float64),
                          row(dtype::bfloat16)};

} // namespace

std::span<const op_kernels> max_pool2d_kernels() {
  return rows;
}

} // namespace troupe::cuda

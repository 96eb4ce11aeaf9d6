#include "troupe/tensors/ops/pooling.hpp"

#include "troupe/tensors/op_threads.hpp"

namespace troupe::ops {

namespace {

/// Calls `fn(part, in, out)` for ranges of images. `part` is the window with
/// the number of images of the range. `in` and `out` are the indices of the
/// first element of the range in the input and in the output of the pooling.
template <class F>
void for_images(const pool_window& window, const F& fn) {
  const auto in = window.height * window.width * window.channels;
  const auto out = window.out_height * window.out_width * window.channels;
  for_ranges(window.count, window.count * in,
             [&](std::size_t begin, std::size_t end) {
               auto part = window;
               part.count = end - begin;
               fn(part, begin * in, begin * out);
             });
}

} // namespace

void max_pool(const pool_window& window, const float* x, float* out,
              std::uint8_t* indices) {
  for_images(window, [&](const pool_window& part, std::size_t first_in,
                         std::size_t first_out) {
    kernels().max_pool(part, x + first_in, out + first_out,
                       indices + first_out);
  });
}

void max_pool_backward(const pool_window& window, const float* grad_out,
                       const std::uint8_t* indices, float* grad_x,
                       bool accumulate) {
  for_images(window, [&](const pool_window& part, std::size_t first_in,
                         std::size_t first_out) {
    kernels().max_pool_backward(part, grad_out + first_out, indices + first_out,
                                grad_x + first_in, accumulate);
  });
}

} // namespace troupe::ops

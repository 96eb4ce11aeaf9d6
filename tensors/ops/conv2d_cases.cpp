#include "troupe/tensors/ops/conv2d_cases.hpp"

#include "troupe/tensors/ops/conv2d_max_pool.hpp"

namespace troupe {

namespace {

constexpr conv2d_options same_relu{.pad = padding::same, .f = activation::relu};

} // namespace

const std::array<op_case, 7> ops::conv2d_cases{{
  {{{1, 1, 1, 1}, {1, 1, 1, 1}, {1}}, conv2d_options{}},
  {{{2, 5, 7, 3}, {3, 3, 3, 4}, {4}}, conv2d_options{}},
  {{{2, 5, 7, 3}, {3, 3, 3, 4}, {4}}, same_relu},
  {{{1, 9, 8, 2}, {5, 4, 2, 3}, {3}},
   conv2d_options{2, 3, padding::same, activation::relu}},
  {{{3, 9, 8, 2}, {2, 3, 2, 17}, {17}},
   conv2d_options{2, 1, padding::valid, activation::none}},
  {{{2, 14, 14, 1}, {5, 5, 1, 32}, {32}}, same_relu},
  {{{2, 7, 7, 32}, {5, 5, 32, 16}, {16}}, same_relu, -1, 1, 3e-5},
}};

const std::array<op_case, 5> ops::conv2d_max_pool_cases{{
  {{{1, 2, 2, 1}, {1, 1, 1, 1}, {1}}, conv_pool_options{}},
  {{{3, 6, 7, 3}, {3, 3, 3, 5}, {5}}, conv_pool_options{same_relu}},
  {{{2, 9, 8, 2}, {2, 3, 2, 17}, {17}},
   conv_pool_options{{2, 1, padding::valid, activation::relu},
                     {3, 2, 2, 1, padding::same}},
   -1,
   1,
   1e-5,
   // The windows overlap. The sum of the gradients of an element is rounded,
   // and so is the gradient that is computed from it.
   2 * 0x1p-8},
  {{{0, 4, 4, 2}, {3, 3, 2, 2}, {2}}, conv_pool_options{same_relu}},
  // An image and its convolution output take 404 KiB, and a tile has 1 MiB for
  // each thread. Therefore a tile has room for two images per thread. If ops
  // use one thread, the five images make tiles of 2, 2 and 1 images.
  {{{5, 32, 32, 1}, {1, 1, 1, 100}, {100}},
   conv_pool_options{same_relu},
   -1,
   1,
   3e-5},
}};

} // namespace troupe

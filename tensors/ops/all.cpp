#include "troupe/tensors/ops/all.hpp"

#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/cast.hpp"
#include "troupe/tensors/ops/clone.hpp"
#include "troupe/tensors/ops/concat.hpp"
#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"
#include "troupe/tensors/ops/slice.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/to_device.hpp"
#include "troupe/tensors/ops/unary.hpp"

namespace troupe::ops {

namespace {

constexpr std::array list{
  &add,
  &subtract,
  &multiply,
  &divide, //
  &relu,
  &sigmoid,
  &tanh,
  &exp, //
  &log,
  &sqrt,
  &square,
  &negate, //
  &reduce_sum,
  &reduce_mean,
  &reshape,
  &slice,
  &concat,
  &embedding_lookup,
  &clone,
  &to_device,
  &cast, //
  &matmul,
  &dense,
  &conv2d,
  &max_pool2d,
  &conv2d_max_pool, //
  &dropout,
  &softmax,
  &softmax_cross_entropy,
  &sigmoid_cross_entropy,
};

} // namespace

const std::span<const op* const> built_in{list};

} // namespace troupe::ops

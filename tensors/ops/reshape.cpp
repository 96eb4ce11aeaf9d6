#include "troupe/tensors/ops/reshape.hpp"

#include "troupe/tensors/ops/check.hpp"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

struct target {
  std::array<std::int32_t, shape::max_rank> extents{};
  std::uint32_t rank = 0;
};

target target_of(const shape& dims) {
  target out;
  for (const auto extent : dims)
    out.extents[out.rank++] = static_cast<std::int32_t>(extent);
  return out;
}

op_outputs infer(std::span<const tensor_spec> in, const op_options& options) {
  const auto to = options.as<target>();
  std::array<std::int64_t, shape::max_rank> extents{};
  std::copy_n(to.extents.begin(), to.rank, extents.begin());
  const shape dims{std::span{extents.data(), to.rank}};
  ops::require(dims.elements() == in[0].dims.elements(),
               ("as many elements as " + to_string(dims)).c_str(), in);
  return {dims, in[0].type};
}

const std::array cases{
  op_case{{{6}}, target_of({2, 3})},
  op_case{{{2, 3, 5}}, target_of({30})},
  op_case{{{1}}, target_of({})},
};

} // namespace

const op ops::reshape{
  .name = "reshape",
  .infer = infer,
  .saves_inputs = false,
  .is_reshape = true,
  .cases = cases,
  .formula = "x in another shape",
};

tensor reshape(const tensor& x, const shape& dims) {
  if (std::ranges::any_of(dims, [](auto e) { return e > 0x7fff'ffff; }))
    throw std::logic_error("reshape to " + to_string(dims)
                           + ": an extent above 2^31");
  return apply(ops::reshape, {x}, target_of(dims));
}

tensor reshape(const tensor& x, std::span<const std::int64_t> extents) {
  std::vector<std::int64_t, pool_allocator<std::int64_t>> known{extents.begin(),
                                                                extents.end()};
  const auto rest = std::ranges::find(known, -1);
  if (rest != known.end()) {
    *rest = 1;
    const auto others = shape{known}.elements();
    *rest = others ? std::int64_t(x.size() / others) : 0;
  }
  return reshape(x, shape{known});
}

} // namespace troupe

#include "troupe/models/losses.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/unary.hpp"

#include <stdexcept>

namespace troupe::models {

namespace {

constexpr loss losses[] = {{"softmax_cross_entropy", cross_entropy, true},
                           {"mean_squared_error", mean_squared_error, false}};

} // namespace

tensor cross_entropy(const tensor& logits, const tensor& labels) {
  return softmax_cross_entropy(logits, labels);
}

tensor mean_squared_error(const tensor& outputs, const tensor& targets) {
  const auto& dims = outputs.dims();
  if (dims != targets.dims() || dims.rank() == 0)
    throw std::logic_error("mean_squared_error of outputs "
                           + to_string(outputs.spec()) + " and targets "
                           + to_string(targets.spec()));
  const auto each =
    static_cast<std::int64_t>(dims.axes(1, dims.rank()).elements());
  return reduce_mean(reshape(square(outputs - targets), {dims.front(), each}),
                     {1});
}

const loss& find_loss(std::string_view name) {
  for (const auto& one : losses)
    if (one.name == name)
      return one;
  const auto names = loss_names();
  throw std::invalid_argument("there is no loss " + detail::in_quotes(name)
                              + ";" + detail::guess(name, names)
                              + " give one of " + detail::joined(names));
}

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const auto& one : losses)
    names.emplace_back(one.name);
  return names;
}

} // namespace troupe::models

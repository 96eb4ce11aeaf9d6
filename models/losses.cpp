#include "troupe/models/losses.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/unary.hpp"

#include <deque>
#include <mutex>
#include <stdexcept>

namespace troupe::models {

namespace {

struct known_losses {
  std::mutex mutex;
  /// A deque, because `find_loss` returns references.
  std::deque<loss> losses{
    {"softmax_cross_entropy", target_kind::classes, cross_entropy},
    {"mean_squared_error", target_kind::values, mean_squared_error},
    {"mean_absolute_error", target_kind::values, mean_absolute_error},
    {"binary_cross_entropy", target_kind::values, binary_cross_entropy}};

  const loss* find(std::string_view name) const {
    for (const auto& one : losses)
      if (one.name == name)
        return &one;
    return nullptr;
  }
};

known_losses& loss_registry() {
  static known_losses the_one;
  return the_one;
}

/// Outputs and targets of one dtype, [n, outputs of an example].
struct compared {
  tensor outputs, targets;
};

/// @param name of the loss, in the error text.
[[noreturn]] void refuse_targets(const std::string& name, const tensor& outputs,
                                 const tensor& targets) {
  throw std::logic_error(name + " of outputs " + to_string(outputs.spec())
                         + (targets
                              ? " and targets " + to_string(targets.spec())
                              : std::string{" without targets"}));
}

/// @param name of the loss, in the error text.
compared compare(const char* name, const tensor& outputs,
                 const tensor& targets) {
  const auto& dims = outputs.dims();
  if (!targets || !are_comparable(dims, targets.dims()))
    refuse_targets(name, outputs, targets);
  const shape rows{dims.front(), static_cast<std::int64_t>(
                                   dims.axes(1, dims.rank()).elements())};
  return {reshape(outputs, rows), targets.as(outputs.type()).reshaped(rows)};
}

/// Returns output - target for each output.
/// @shape result [n, outputs of an example]
tensor differences(const char* name, const tensor& outputs,
                   const tensor& targets) {
  const auto [given, wanted] = compare(name, outputs, targets);
  return given - wanted;
}

} // namespace

tensor cross_entropy(const tensor& logits, const tensor& labels) {
  return softmax_cross_entropy(logits, labels);
}

tensor mean_squared_error(const tensor& outputs, const tensor& targets) {
  return reduce_mean(
    square(differences("mean_squared_error", outputs, targets)), {1});
}

tensor mean_absolute_error(const tensor& outputs, const tensor& targets) {
  const auto difference = differences("mean_absolute_error", outputs, targets);
  return reduce_mean(
    troupe::relu(difference) + troupe::relu(negate(difference)), {1});
}

tensor binary_cross_entropy(const tensor& logits, const tensor& targets) {
  const auto [given, wanted] = compare("binary_cross_entropy", logits, targets);
  return reduce_mean(sigmoid_cross_entropy(given, wanted), {1});
}

bool are_comparable(const shape& outputs, const shape& labels) {
  const auto is_column = [](const shape& x) {
    return x.rank() == 1 || (x.rank() == 2 && x[1] == 1);
  };
  return outputs.rank() > 0 && labels.rank() > 0
         && (outputs == labels
             || (is_column(outputs) && is_column(labels)
                 && outputs.front() == labels.front()));
}

void register_loss(loss own) {
  if (!detail::is_name(own.name))
    throw std::logic_error("a loss cannot be named "
                           + detail::in_quotes(own.name) + ": a name is "
                           + std::string{detail::name_rule});
  if (!own.compute)
    throw std::logic_error("the loss " + detail::in_quotes(own.name)
                           + " has no function; set `compute`");
  auto& all = loss_registry();
  const std::lock_guard guard{all.mutex};
  if (all.find(own.name))
    throw std::logic_error("the loss " + detail::in_quotes(own.name)
                           + " is registered already; choose another name");
  all.losses.push_back(std::move(own));
}

const loss& find_loss(std::string_view name) {
  {
    auto& all = loss_registry();
    const std::lock_guard guard{all.mutex};
    if (const auto* found = all.find(name))
      return *found;
  }
  const auto names = loss_names();
  throw std::invalid_argument("there is no loss " + detail::in_quotes(name)
                              + ";" + detail::guess(name, names)
                              + " give one of " + detail::joined(names));
}

std::vector<std::string> loss_names() {
  auto& all = loss_registry();
  const std::lock_guard guard{all.mutex};
  std::vector<std::string> names;
  for (const auto& one : all.losses)
    names.push_back(one.name);
  return names;
}

tensor shaped_as(const tensor& outputs, const tensor& labels) {
  if (!labels || labels.dims() == outputs.dims()
      || !are_comparable(outputs.dims(), labels.dims()))
    return labels;
  return labels.reshaped(outputs.dims());
}

tensor compute_losses(const loss& function, const tensor& outputs,
                      const tensor& targets) {
  const bool compares_values = function.targets == target_kind::values;
  if (compares_values
      && (!targets || !are_comparable(outputs.dims(), targets.dims())))
    refuse_targets(function.name, outputs, targets);
  auto losses = function.compute(
    outputs, compares_values ? shaped_as(outputs, targets) : targets);
  const auto n = outputs.dims().rank() > 0 ? outputs.dims().front() : 0;
  if (!losses || losses.spec() != tensor_spec{{n}, dtype::float32})
    throw std::logic_error(
      "the loss " + detail::in_quotes(function.name) + " gave "
      + (losses ? to_string(losses.spec()) : std::string{"an empty tensor"})
      + " for " + std::to_string(n)
      + " examples; it gives one loss for each example, "
      + to_string(tensor_spec{{n}, dtype::float32}));
  return losses;
}

} // namespace troupe::models

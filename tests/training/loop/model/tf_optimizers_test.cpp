#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/tests/support/tf_values.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

// Replays what the optimizers of Keras have computed, with dense and with
// sparse gradients.

namespace {

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

const std::string adds_no_duplicates =
  "Keras 3 does not add the rows of a sparse gradient that occur twice";
const std::string not_built = "no such update rule";

const reasons_by_id not_replayed{
  {"optimizers/keras-3.15.1/SGD,learning_rate=0.1,weight_decay=0.01",
   "only adamw has a weight decay"},
  {"optimizers/keras-3.15.1/SGD,learning_rate=0.1,clipvalue=0.15",
   "no clipping by value"},
  {"optimizers/keras-3.15.1/Adam,learning_rate=0.1,amsgrad=True", "no AMSGrad"},
  {"optimizers/keras-3.15.1/RMSprop,learning_rate=0.1", not_built},
  {"optimizers/keras-3.15.1/Adamax,learning_rate=0.1", not_built},
  {"optimizers/keras-3.15.1/Lamb,learning_rate=0.1", not_built},
  {"optimizers/keras-3.15.1/Lion,learning_rate=0.01", not_built},
  {"optimizers/keras-3.15.1/Adafactor,learning_rate=0.1", not_built},
  {"optimizers/keras-3.15.1/sparse/Adagrad,learning_rate=0.1",
   adds_no_duplicates},
  {"optimizers/keras-3.15.1/sparse/RMSprop,learning_rate=0.1", not_built},
  {"optimizers/keras-3.15.1/sparse/Ftrl,learning_rate=0.1",
   adds_no_duplicates + ", and its FTRL moves all rows"},
  {"optimizers/tf_keras-2.21.0/SGD,learning_rate=0.1,use_ema=True,"
   "ema_momentum=0.9",
   "no moving average of the variables"},
  {"optimizers/tf_keras-2.21.0/Adam,learning_rate=0.1,amsgrad=True",
   "no AMSGrad"},
  {"optimizers/tf_keras-2.21.0/RMSprop,learning_rate=0.1,momentum=0.9",
   not_built},
  {"optimizers/tf_keras-2.21.0/RMSprop,learning_rate=0.1,centered=True",
   not_built},
  {"optimizers/tf_keras-2.21.0/Lion,learning_rate=0.01", not_built},
  {"optimizers/tf_keras-2.21.0/sparse/RMSprop,learning_rate=0.1", not_built},
};

/// Arguments of an optimizer. Those that an entry does not name have the
/// defaults of Keras.
class arguments {
public:
  explicit arguments(const json& inputs) : named_(inputs.at("arguments")) {}
  /// Every argument must be read: else the replay leaves one out.
  ~arguments() {
    for (const auto& [name, value] : named_.items())
      EXPECT_TRUE(read_.contains(name)) << name << " has no effect";
  }
  arguments(const arguments&) = delete;
  arguments& operator=(const arguments&) = delete;

  float number(const std::string& name, double default_value) {
    read_.insert(name);
    return static_cast<float>(named_.value(name, default_value));
  }
  bool flag(const std::string& name) {
    read_.insert(name);
    return named_.value(name, false);
  }

private:
  json named_;
  std::set<std::string> read_;
};

/// What an entry says about a run of an optimizer.
struct described_run {
  update_rule rule = sgd{};
  /// Maximum norm of a gradient. 0: no limit.
  double clip_norm = 0;
  /// Maximum difference between a value of the entry and ours, in units of
  /// 2^-23 of the value, or of 1 if this is greater.
  int tolerance = 0;
  /// Maximum difference of each step besides.
  double step_tolerance = 0;
};

constexpr double default_beta2 = 0.999;

described_run read(const json& inputs) {
  arguments args{inputs};
  const auto name = inputs.at("optimizer").get<std::string>();
  const auto rate = args.number("learning_rate", 0.001);
  if (name == "SGD") {
    const auto momentum = args.number("momentum", 0);
    const bool nesterov = args.flag("nesterov");
    // All entries have one variable, so both limits are the same.
    const auto limit = static_cast<double>(
      std::max(args.number("clipnorm", 0), args.number("global_clipnorm", 0)));
    // Keras adds learning_rate * g to the velocity, and g / norm to the
    // variable, where we multiply later or earlier.
    return {sgd{rate, momentum, nesterov}, limit,
            momentum > 0 || limit > 0 ? 2 : 0};
  }
  if (name == "Adam" || name == "AdamW") {
    const auto beta1 = args.number("beta_1", 0.9),
               beta2 = args.number("beta_2", default_beta2),
               epsilon = args.number("epsilon", 1e-7);
    // Keras multiplies g^2 by 1 - beta2 and corrects the bias by 1 - beta2^t,
    // but only in the power it rounds beta2 to float32. So v, corrected, is
    // greater than the mean of squares by this fraction. A step, which is at
    // most about the rate, is longer or shorter by a half of the fraction.
    const auto exact_beta2 =
      inputs.at("arguments").value("beta_2", default_beta2);
    const auto fraction = std::abs((1 - double{beta2}) / (1 - exact_beta2) - 1);
    const auto step_tolerance = double{rate} * fraction / 2;
    constexpr int tolerance = 4; // Powers of beta in float32.
    if (name == "Adam")
      return {adam{rate, beta1, beta2, epsilon}, 0, tolerance, step_tolerance};
    return {
      adamw{rate, beta1, beta2, epsilon, args.number("weight_decay", 0.004)}, 0,
      tolerance, step_tolerance};
  }
  if (name == "Adagrad")
    return {adagrad{rate, args.number("initial_accumulator_value", 0.1),
                    args.number("epsilon", 1e-7)}};
  if (name == "Ftrl")
    return {ftrl{rate, args.number("initial_accumulator_value", 0.1),
                 args.number("l1_regularization_strength", 0),
                 args.number("l2_regularization_strength", 0),
                 args.number("l2_shrinkage_regularization_strength", 0),
                 args.number("beta", 0)}};
  ADD_FAILURE() << "the optimizer " << name
                << " is neither replayed nor listed with a reason";
  return {};
}

/// Returns the rule with which step `t` of Keras's Adam is a step of ours.
/// Keras adds epsilon to sqrt(v), before the correction of the bias.
update_rule with_epsilon_of_keras(const update_rule& rule, std::uint64_t t) {
  auto numbers = rule.numbers();
  double beta2 = 0;
  for (const auto& one : numbers)
    beta2 = one.name == "beta2" ? one.value : beta2;
  for (auto& one : numbers)
    if (one.name == "epsilon" && beta2 > 0)
      one.value /= std::sqrt(1 - std::pow(beta2, static_cast<double>(t)));
  return update_rule{rule.name(), numbers};
}

/// Returns nested arrays of numbers as a tensor of float32.
tensor tensor_of(const json& numbers) {
  std::vector<std::int64_t> extents;
  for (auto axis = &numbers; axis->is_array(); axis = &axis->front())
    extents.push_back(static_cast<std::int64_t>(axis->size()));
  std::vector<float> values;
  const std::function<void(const json&)> append = [&](const json& from) {
    if (from.is_array())
      for (const auto& one : from)
        append(one);
    else
      values.push_back(from.get<float>());
  };
  append(numbers);
  return tensor::of<float>(shape{extents}, values);
}

/// Returns the gradient of each step.
std::vector<parameter_gradient> gradients_of(const json& entry) {
  const auto& inputs = entry.at("inputs");
  std::vector<parameter_gradient> out;
  if (inputs.contains("gradients")) {
    for (const auto& one : inputs.at("gradients"))
      out.emplace_back(tensor_of(one));
    return out;
  }
  const auto rows = inputs.at("indices").get<std::vector<std::int64_t>>();
  const sparse_rows each{
    tensor_of(inputs.at("start")).dims(),
    tensor::of<std::int64_t>({static_cast<std::int64_t>(rows.size())}, rows),
    tensor_of(inputs.at("values"))};
  return {entry.at("expected").size(), parameter_gradient{each}};
}

/// A variable that an update rule trains, with the slots of the rule.
class trained {
public:
  trained(const tensor& start, const update_rule& rule)
    : value_{start.clone()} {
    for (std::size_t s = 0; s < rule.slots(); ++s)
      slots_.emplace_back(start.size(), rule.initial_slot_value(s));
  }

  const tensor& value() const { return value_; }

  void step(const update_rule& rule, const parameter_gradient& gradient) {
    ++steps_;
    const auto from = gradient.elements();
    if (!gradient.is_sparse())
      return update(rule, 0, from.data<float>());
    const auto& rows = gradient.rows();
    const auto size = rows.row_size();
    for (std::size_t i = 0; i < rows.count(); ++i)
      update(rule,
             static_cast<std::size_t>(rows.indices().data<std::int64_t>()[i])
               * size,
             from.data<float>().subspan(i * size, size));
  }

private:
  void update(const update_rule& rule, std::size_t at,
              std::span<const float> gradient) {
    std::vector<std::span<float>> slots;
    for (auto& one : slots_)
      slots.push_back(std::span{one}.subspan(at, gradient.size()));
    rule.apply(value_.mutable_data<float>().subspan(at, gradient.size()),
               gradient, slots, steps_, rule.learning_rate());
  }

  tensor value_;
  std::vector<std::vector<float>> slots_;
  std::uint64_t steps_ = 0;
};

/// Expects that `optimizer` moves a variable as the rule does.
void expect_optimizer_of_rule(const update_rule& rule, const tensor& start,
                              std::span<const parameter_gradient> gradients) {
  trained by_rule{start, rule};
  parameters own{{{"x", start.dims()}}};
  own.variables()[0].value().copy_from(start);
  optimizer tested{rule};
  for (const auto& one : gradients) {
    by_rule.step(rule, one);
    tested.apply(std::span{&one, 1}, own.variables());
    EXPECT_TRUE(
      same_bits(own.variables()[0].value().detach(), by_rule.value()));
  }
}

TEST(TfOptimizers, HaveTheValuesOfKeras) {
  if (!tf_values_file())
    GTEST_SKIP() << "TROUPE_TF_VALUES is not set";
  replay(tf_values("optimizers"), not_replayed, [](const json& entry) {
    const auto run = read(entry.at("inputs"));
    const auto start = tensor_of(entry.at("inputs").at("start"));
    auto gradients = gradients_of(entry);
    for (auto& one : gradients)
      if (run.clip_norm > 0)
        clip_by_global_norm(std::span{&one, 1}, run.clip_norm);
    expect_optimizer_of_rule(run.rule, start, gradients);
    trained x{start, run.rule};
    ASSERT_EQ(gradients.size(), entry.at("expected").size());
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      x.step(with_epsilon_of_keras(run.rule, t + 1), gradients[t]);
      const auto want = tensor_of(entry.at("expected")[t]);
      for (std::size_t i = 0; i < start.size(); ++i) {
        const double wanted{want.data<float>()[i]};
        EXPECT_NEAR(x.value().data<float>()[i], wanted,
                    run.tolerance * 0x1p-23 * std::max(1.0, std::abs(wanted))
                      + run.step_tolerance * static_cast<double>(t + 1))
          << "element " << i << " after step " << t + 1;
      }
    }
  });
}

/// Our FTRL adds the rows of a sparse gradient that occur twice, and moves its
/// rows only.
TEST(TfOptimizers, SparseFtrlLeavesTheOtherRows) {
  if (!tf_values_file())
    GTEST_SKIP() << "TROUPE_TF_VALUES is not set";
  for (const auto& entry : tf_values("optimizers")) {
    if (entry.at("id")
        != "optimizers/keras-3.15.1/sparse/Ftrl,learning_rate=0.1")
      continue;
    const auto run = read(entry.at("inputs"));
    const auto start = tensor_of(entry.at("inputs").at("start"));
    const auto gradients = gradients_of(entry);
    trained x{start, run.rule};
    trained row_1{start.slice(1, 2), run.rule};
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      x.step(run.rule, gradients[t]);
      row_1.step(run.rule, tensor::of<float>({1, 2}, {0.1f + 1, 0.2f + 0.5f}));
      const auto want = tensor_of(entry.at("expected")[t]);
      for (const auto row : {0, 2}) {
        EXPECT_TRUE(
          same_bits(x.value().slice(row, row + 1), start.slice(row, row + 1)));
        EXPECT_TRUE(same_bits(want.slice(row, row + 1), tensor::zeros({1, 2})));
      }
      EXPECT_TRUE(same_bits(x.value().slice(1, 2), row_1.value()));
      // Row 3 occurs once.
      EXPECT_TRUE(same_bits(x.value().slice(3, 4), want.slice(3, 4)));
    }
    return;
  }
  FAIL() << "the file has no such entry";
}

} // namespace

#include "troupe/tensors/optim/update_rules.hpp"

#include "troupe/tensors/detail/exact_math.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op_threads.hpp"

#include <cmath>
#include <stdexcept>

namespace troupe {

namespace {

template <class F>
void list(sgd& x, F& visit) {
  visit("learning_rate", x.learning_rate);
  visit("momentum", x.momentum);
  visit("nesterov", x.nesterov);
}

template <class F>
void list(adam& x, F& visit) {
  visit("learning_rate", x.learning_rate);
  visit("beta1", x.beta1);
  visit("beta2", x.beta2);
  visit("epsilon", x.epsilon);
}

template <class F>
void list(adamw& rule, F& visit) {
  visit("learning_rate", rule.learning_rate);
  visit("beta1", rule.beta1);
  visit("beta2", rule.beta2);
  visit("epsilon", rule.epsilon);
  visit("weight_decay", rule.weight_decay);
}

template <class F>
void list(adagrad& rule, F& visit) {
  visit("learning_rate", rule.learning_rate);
  visit("initial_accumulator_value", rule.initial_accumulator_value);
  visit("epsilon", rule.epsilon);
}

template <class F>
void list(ftrl& rule, F& visit) {
  visit("learning_rate", rule.learning_rate);
  visit("initial_accumulator_value", rule.initial_accumulator_value);
  visit("l1_regularization_strength", rule.l1_regularization_strength);
  visit("l2_regularization_strength", rule.l2_regularization_strength);
  visit("l2_shrinkage_regularization_strength",
        rule.l2_shrinkage_regularization_strength);
  visit("beta", rule.beta);
}

update_rule::variant_type by_name(std::string_view name) {
  if (name == "sgd")
    return sgd{};
  if (name == "adam")
    return adam{};
  if (name == "adamw")
    return adamw{};
  if (name == "adagrad")
    return adagrad{};
  if (name == "ftrl")
    return ftrl{};
  throw std::invalid_argument("the optimizer '" + std::string{name}
                              + "' is unknown; there are "
                              + detail::joined(update_rule_names()));
}

/// Checks the hyperparameters of a rule.
struct checker {
  std::string_view owner;

  void at_least_0(const char* name, float x) const {
    check_value(std::isfinite(x) && x >= 0, name, x, "it must be at least 0");
  }
  void above_0(const char* name, float x) const {
    check_value(std::isfinite(x) && x > 0, name, x, "it must be above 0");
  }
  void below_1(const char* name, float x) const {
    check_value(x >= 0 && x < 1, name, x, "it must be at least 0 and below 1");
  }
  void check_value(bool holds, const char* name, float x,
                   const char* rule) const {
    detail::require(holds, owner, name, detail::as_written(x), rule);
  }

  void operator()(const sgd& x) const {
    at_least_0("learning_rate", x.learning_rate);
    below_1("momentum", x.momentum);
    check_value(!x.nesterov || x.momentum > 0, "momentum", x.momentum,
                "it must be above 0 with nesterov");
  }
  void operator()(const adam& x) const {
    at_least_0("learning_rate", x.learning_rate);
    below_1("beta1", x.beta1);
    below_1("beta2", x.beta2);
    above_0("epsilon", x.epsilon);
  }
  void operator()(const adamw& x) const {
    (*this)(adam{x.learning_rate, x.beta1, x.beta2, x.epsilon});
    at_least_0("weight_decay", x.weight_decay);
  }
  void operator()(const adagrad& x) const {
    at_least_0("learning_rate", x.learning_rate);
    at_least_0("initial_accumulator_value", x.initial_accumulator_value);
    above_0("epsilon", x.epsilon);
  }
  void operator()(const ftrl& x) const {
    at_least_0("learning_rate", x.learning_rate);
    above_0("initial_accumulator_value", x.initial_accumulator_value);
    at_least_0("l1_regularization_strength", x.l1_regularization_strength);
    at_least_0("l2_regularization_strength", x.l2_regularization_strength);
    at_least_0("l2_shrinkage_regularization_strength",
               x.l2_shrinkage_regularization_strength);
    at_least_0("beta", x.beta);
  }
};

adam_coefficients coefficients_at(const adam& rule, std::uint64_t step,
                                  double rate, double decay) {
  const double beta1 = rule.beta1, beta2 = rule.beta2;
  return {.step_size =
            static_cast<float>(rate / (1 - detail::power(beta1, step))),
          .beta1 = rule.beta1,
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = rule.beta2,
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .inv_sqrt_bias_correction =
            static_cast<float>(1 / std::sqrt(1 - detail::power(beta2, step))),
          .epsilon = rule.epsilon,
          .decay_factor = static_cast<float>(1 - rate * decay)};
}

/// Sets the coefficients of a step of each rule that depend on the rule.
struct coefficient_setter {
  std::uint64_t step;
  rule_coefficients* out;
  using formula = rule_coefficients::formula;

  void operator()(const sgd& rule) const {
    out->momentum = rule.momentum;
    out->kind = rule.momentum == 0 ? formula::sgd
                : rule.nesterov    ? formula::nesterov
                                   : formula::momentum;
  }
  void operator()(const adam& rule) const {
    out->kind = formula::adam;
    out->adam = coefficients_at(rule, step, out->learning_rate, 0);
  }
  void operator()(const adamw& rule) const {
    out->kind = formula::adam;
    out->adam = coefficients_at(
      {rule.learning_rate, rule.beta1, rule.beta2, rule.epsilon}, step,
      out->learning_rate, rule.weight_decay);
  }
  void operator()(const adagrad& rule) const {
    out->kind = formula::adagrad;
    out->epsilon = rule.epsilon;
  }
  void operator()(const ftrl& rule) const {
    const double rate = out->learning_rate;
    if (rate == 0) {
      out->kind = formula::none;
      return;
    }
    out->kind = formula::ftrl;
    out->ftrl = {.learning_rate = out->learning_rate,
                 .twice_l2_shrinkage =
                   2 * rule.l2_shrinkage_regularization_strength,
                 .l1 = rule.l1_regularization_strength,
                 .added_to_denominator = static_cast<float>(
                   2.0 * rule.l2_regularization_strength + rule.beta / rate)};
  }
};

} // namespace

update_rule::update_rule(std::string_view name,
                         std::span<const hyperparameter> numbers)
  : rule_{by_name(name)} {
  detail::hyperparameter_reader read{name, numbers};
  std::visit([&](auto& rule) { list(rule, read); }, rule_);
  read.finish();
  check();
}

std::string_view update_rule::name() const {
  return update_rule_names()[rule_.index()];
}

hyperparameters update_rule::numbers() const {
  hyperparameters out;
  detail::hyperparameter_writer write{&out};
  std::visit([&](auto rule) { list(rule, write); }, rule_);
  return out;
}

float update_rule::learning_rate() const {
  return std::visit([](const auto& rule) { return rule.learning_rate; }, rule_);
}

void update_rule::set_learning_rate(float x) {
  auto changed = *this;
  std::visit([&](auto& rule) { rule.learning_rate = x; }, changed.rule_);
  changed.check();
  *this = changed;
}

std::size_t update_rule::slots() const {
  if (const auto* rule = std::get_if<sgd>(&rule_))
    return rule->momentum > 0 ? 1 : 0;
  return std::holds_alternative<adagrad>(rule_) ? 1 : 2;
}

float update_rule::initial_slot_value(std::size_t slot) const {
  if (const auto* rule = std::get_if<adagrad>(&rule_))
    return rule->initial_accumulator_value;
  const auto* rule = std::get_if<ftrl>(&rule_);
  return rule && slot == 0 ? rule->initial_accumulator_value : 0;
}

void update_rule::check() const {
  std::visit(checker{name()}, rule_);
}

rule_step update_rule::step_at(std::uint64_t step, float learning_rate,
                               float scale) const {
  if (step == 0)
    throw std::logic_error(std::string{name()}
                           + ", step 0: steps count from 1");
  rule_coefficients out{.learning_rate = learning_rate, .scale = scale};
  std::visit(coefficient_setter{step, &out}, rule_);
  return rule_step{out};
}

void rule_step::operator()(float* values, const float* gradient,
                           const std::array<float*, 2>& slots,
                           std::size_t n) const noexcept {
  const auto& c = coefficients_;
  using formula = rule_coefficients::formula;
  switch (c.kind) {
    case formula::none:
      return;
    case formula::sgd:
      return kernels_->sgd(values, gradient, n, c.learning_rate, c.scale);
    case formula::momentum:
      return kernels_->momentum(values, gradient, slots[0], n, c.learning_rate,
                                c.momentum, c.scale);
    case formula::nesterov:
      return kernels_->nesterov(values, gradient, slots[0], n, c.learning_rate,
                                c.momentum, c.scale);
    case formula::adam:
      return kernels_->adam(values, gradient, slots[0], slots[1], n, c.adam,
                            c.scale);
    case formula::adagrad:
      return kernels_->adagrad(values, gradient, slots[0], n, c.learning_rate,
                               c.epsilon, c.scale);
    case formula::ftrl:
      return kernels_->ftrl(values, gradient, slots[0], slots[1], n, c.ftrl,
                            c.scale);
  }
}

void update_rule::apply(std::span<float> values,
                        std::span<const float> gradient,
                        std::span<const std::span<float>> slots,
                        std::uint64_t step, float learning_rate,
                        float scale) const {
  const auto n = values.size();
  bool fits = gradient.size() == n && slots.size() == this->slots() && step > 0;
  for (const auto& slot : slots)
    fits = fits && slot.size() == n;
  if (!fits)
    throw std::logic_error(
      std::string{name()} + ", step " + std::to_string(step) + ": "
      + std::to_string(n) + " values, a gradient of "
      + std::to_string(gradient.size()) + " and " + std::to_string(slots.size())
      + " slots, the first of "
      + std::to_string(slots.empty() ? 0 : slots[0].size()));
  const flush_denormals flushing;
  const auto update = step_at(step, learning_rate, scale);
  for_elements(n, [&](std::size_t begin, std::size_t end) {
    std::array<float*, 2> first{};
    for (std::size_t s = 0; s < slots.size(); ++s)
      first[s] = slots[s].data() + begin;
    update(values.data() + begin, gradient.data() + begin, first, end - begin);
  });
}

const std::vector<std::string>& update_rule_names() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw", "adagrad",
                                              "ftrl"};
  return names;
}

} // namespace troupe

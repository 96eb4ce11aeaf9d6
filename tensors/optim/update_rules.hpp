#pragma once

#include "troupe/tensors/base/hyperparameters.hpp"
#include "troupe/tensors/base/kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

// In-place update rules in float32. x is a parameter, g its gradient, and t the
// step, which counts from 1. Slots are the state of a rule (v, m, n, z); each
// begins with `update_rule::initial_slot_value`, which is zero unless the rule
// says otherwise. Coefficients that depend on t only are computed in float64
// and rounded once.

/// Stochastic gradient descent.
/// momentum 0:  x -= learning_rate * g, without a slot
/// momentum:    v = momentum * v + g, x -= learning_rate * v
/// Nesterov:    v = momentum * v + g, x -= learning_rate * (g + momentum * v)
/// PyTorch's SGD with dampening 0 uses the same formulas. Keras stores
/// learning_rate * v, which is equivalent while the learning rate is constant.
/// @source Sutskever et al., ICML 2013.
struct sgd {
  float learning_rate = 0.01f;
  float momentum = 0;
  bool nesterov = false;
};

/// m = beta1 * m + (1 - beta1) * g
/// v = beta2 * v + (1 - beta2) * g^2
/// x -= learning_rate * (m / (1 - beta1^t))
///      / (sqrt(v / (1 - beta2^t)) + epsilon)
/// Epsilon is added after the bias correction, as in algorithm 1 of the paper
/// and in PyTorch. Keras adds it to sqrt(v), before the correction.
/// @source Kingma & Ba, ICLR 2015.
struct adam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
};

/// Multiplies x by 1 - learning_rate * weight_decay, as PyTorch and Keras do,
/// and then updates x by the formulas of `adam`.
/// @source Loshchilov & Hutter, ICLR 2019; the schedule multiplier of the paper
///         is part of the learning rate.
struct adamw {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 1e-2f;
};

/// n += g^2, x -= learning_rate * g / sqrt(n + epsilon)
/// The sum n begins with `initial_accumulator_value`. Epsilon is added below
/// the root, as in Keras. PyTorch adds it to the root.
/// @source Duchi, Hazan & Singer, JMLR 2011.
struct adagrad {
  float learning_rate = 1e-3f;
  float initial_accumulator_value = 0.1f;
  float epsilon = 1e-7f;
};

/// Follow the regularized leader, proximal.
/// n' = n + g^2
/// z += g + 2 * l2_shrinkage_regularization_strength * x
///      - (sqrt(n') - sqrt(n)) / learning_rate * x
/// x = (clip(z, -l1, l1) - z)
///     / ((beta + sqrt(n')) / learning_rate + 2 * l2), and then n = n'
/// l1 and l2 are the regularization strengths. The sum n begins with
/// `initial_accumulator_value` and z with zero. The formulas and defaults are
/// those of Keras with its learning_rate_power of -0.5, the power of the paper.
/// x is a function of n and z. So the first update also moves an element whose
/// gradient is zero: to zero, without shrinkage. As z depends on the learning
/// rates of earlier steps, a schedule that decreases the rate shrinks all
/// parameters. A step with learning rate 0 changes nothing; Keras divides by
/// the rate.
/// @source McMahan et al., KDD 2013.
struct ftrl {
  float learning_rate = 1e-3f;
  float initial_accumulator_value = 0.1f; ///< Above 0.
  float l1_regularization_strength = 0;
  float l2_regularization_strength = 0;
  float l2_shrinkage_regularization_strength = 0;
  float beta = 0;
};

/// Formula and coefficients of one step of an update rule; `update_kernels`
/// defines the formulas.
struct rule_coefficients {
  enum class formula : std::uint8_t {
    none, ///< Nothing changes.
    sgd,
    momentum,
    nesterov,
    adam,
    adagrad,
    ftrl
  };
  formula kind = formula::sgd;
  float learning_rate = 0, momentum = 0;
  float epsilon = 0;        ///< Epsilon of `formula::adagrad`.
  adam_coefficients adam{}; ///< Coefficients of `formula::adam`.
  ftrl_coefficients ftrl{}; ///< Coefficients of `formula::ftrl`.
  /// Factor by which the gradient is multiplied first.
  float scale = 1;
};

/// One step of an update rule, with the coefficients of that step. It can
/// update any number of ranges; `update_rule::step_at` makes it.
class rule_step {
public:
  explicit rule_step(const rule_coefficients& coefficients)
    : kernels_{&kernels()}, coefficients_{coefficients} {}

  const rule_coefficients& coefficients() const { return coefficients_; }

  /// Updates `n` elements on the calling thread. It throws nothing and
  /// allocates nothing. The caller flushes denormals (flush_denormals.hpp).
  /// @param slots first elements of the slots. Null: the rule has no such slot.
  void operator()(float* values, const float* gradient,
                  const std::array<float*, 2>& slots,
                  std::size_t n) const noexcept;

private:
  const kernel_table* kernels_;
  rule_coefficients coefficients_;
};

/// An update rule: sgd, adam, adamw, adagrad or ftrl.
class update_rule {
public:
  using variant_type = std::variant<sgd, adam, adamw, adagrad, ftrl>;

  /// @errors throws std::invalid_argument for an invalid hyperparameter, with
  ///         its name and valid range.
  update_rule(const sgd& rule) : rule_{rule} { check(); }
  update_rule(const adam& rule) : rule_{rule} { check(); }
  update_rule(const adamw& rule) : rule_{rule} { check(); }
  update_rule(const adagrad& rule) : rule_{rule} { check(); }
  update_rule(const ftrl& rule) : rule_{rule} { check(); }

  /// Makes a rule by name; hyperparameters that are not given have defaults.
  /// @errors throws std::invalid_argument for an unknown name, and lists the
  ///         known names; also for an unknown or invalid hyperparameter.
  explicit update_rule(std::string_view name,
                       std::span<const hyperparameter> numbers = {});

  std::string_view name() const;
  hyperparameters numbers() const;

  float learning_rate() const;
  /// @errors throws std::invalid_argument if x is negative or not finite.
  void set_learning_rate(float x);

  /// Number of floats of state for each element of a parameter: 0 to 2.
  std::size_t slots() const;

  /// Returns the value of all elements of a slot before the first step.
  float initial_slot_value(std::size_t slot) const;

  /// Returns one step of this rule. Its parameters are those of `apply`.
  /// @errors throws std::logic_error if the step is 0.
  rule_step step_at(std::uint64_t step, float learning_rate,
                    float scale = 1) const;

  /// Updates a range of parameters by one step. Updating sub-ranges separately
  /// gives the same bits as updating the whole range.
  /// @param slots As many ranges as `slots()` returns.
  /// @param step Counts from 1.
  /// @param learning_rate Replaces the learning rate of the rule, so that a
  ///        schedule can set it.
  /// @param scale Factor by which the gradient is multiplied before the update.
  ///        If the gradient is a sum over examples, the caller passes 1 divided
  ///        by their number.
  /// @errors throws std::logic_error if the ranges differ in size, their number
  ///         is wrong, or the step is 0.
  /// @cost one pass. The memory traffic for each element is 12 bytes, because
  ///       the value is read and written and the gradient is read. Each slot is
  ///       read and written, which adds 8 bytes.
  void apply(std::span<float> values, std::span<const float> gradient,
             std::span<const std::span<float>> slots, std::uint64_t step,
             float learning_rate, float scale = 1) const;

private:
  void check() const;

  variant_type rule_;
};

/// Names of all update rules: sgd, adam, adamw, adagrad, ftrl.
const std::vector<std::string>& update_rule_names();

} // namespace troupe

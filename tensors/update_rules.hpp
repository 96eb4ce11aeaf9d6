#pragma once

#include "troupe/tensors/hyperparameters.hpp"
#include "troupe/tensors/kernels.hpp"

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
// step, which counts from 1. Slots are the state of a rule (v, m); they are
// initialized to zero. Coefficients that depend on t only are computed in
// float64 and rounded once.

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

/// Formula and coefficients of one step of an update rule; `update_kernels`
/// defines the formulas.
struct rule_coefficients {
  enum class formula : std::uint8_t { sgd, momentum, nesterov, adam };
  formula kind = formula::sgd;
  float learning_rate = 0, momentum = 0;
  adam_coefficients adam{}; ///< Of `formula::adam`.
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

/// An update rule: sgd, adam or adamw.
class update_rule {
public:
  using variant_type = std::variant<sgd, adam, adamw>;

  /// @errors throws std::invalid_argument for an invalid hyperparameter, with
  ///         its name and valid range.
  update_rule(const sgd& rule) : rule_{rule} { check(); }
  update_rule(const adam& rule) : rule_{rule} { check(); }
  update_rule(const adamw& rule) : rule_{rule} { check(); }

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

/// Names of all update rules: sgd, adam, adamw.
const std::vector<std::string>& update_rule_names();

} // namespace troupe

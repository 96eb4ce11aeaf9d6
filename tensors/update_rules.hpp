#pragma once

#include "troupe/tensors/hyperparameters.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

// Update rules, in place, in float32. x is a parameter, g its gradient, t the
// step, from 1; slots start as zeros. What depends on t alone is computed in
// float64 and rounded once.

/// momentum 0:   x -= learning_rate * g, and there is no slot;
/// else          v = momentum * v + g, x -= learning_rate * v;
/// Nesterov's:   v = momentum * v + g, x -= learning_rate * (g + momentum * v).
/// As PyTorch's SGD (dampening 0). Keras keeps learning_rate * v instead: the
/// same as long as the learning rate does not change.
/// @source Sutskever et al., ICML 2013.
struct sgd {
  float learning_rate = 0.01f;
  float momentum = 0;
  bool nesterov = false;
};

/// m = beta1 * m + (1 - beta1) * g
/// v = beta2 * v + (1 - beta2) * g^2
/// x -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
/// epsilon) Epsilon stands outside the root and is added after the correction,
/// as in the paper's algorithm 1 and in PyTorch; Keras adds it to sqrt(v),
/// before.
/// @source Kingma & Ba, ICLR 2015.
struct adam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
};

/// As `adam`, and x is first multiplied by 1 - learning_rate * weight_decay, as
/// in PyTorch and Keras.
/// @source Loshchilov & Hutter, ICLR 2019; the schedule is the learning rate's.
struct adamw {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 1e-2f;
};

/// Any of them.
class update_rule {
public:
  using any = std::variant<sgd, adam, adamw>;

  /// @errors throws std::invalid_argument: a number that cannot be, with a
  ///         sentence that names it and says what would do.
  update_rule(const sgd& rule) : rule_{rule} { check(); }
  update_rule(const adam& rule) : rule_{rule} { check(); }
  update_rule(const adamw& rule) : rule_{rule} { check(); }

  /// From a description: the numbers that are not given are the defaults.
  /// @errors likewise; an unknown name lists those there are.
  explicit update_rule(std::string_view name,
                       std::span<const named_number> numbers = {});

  std::string_view name() const;
  named_numbers numbers() const;

  float learning_rate() const;

  /// Floats of state beside each parameter: 0 to 2.
  std::size_t slots() const;

  /// One step over a range of parameters. A part of a range gets the bits that
  /// it has in the whole.
  /// @param slots         `slots()` ranges.
  /// @param step          counts from 1.
  /// @param learning_rate instead of the rule's own: a schedule's.
  /// @param scale         multiplies the gradient first: 1 / examples.
  /// @errors throws std::logic_error if the ranges differ in size, their number
  ///         is wrong, or step is 0.
  /// @cost one pass: 12 bytes of traffic per parameter, and 8 per slot.
  void apply(std::span<float> values, std::span<const float> gradient,
             std::span<const std::span<float>> slots, std::uint64_t step,
             float learning_rate, float scale = 1) const;

private:
  void check() const;

  any rule_;
};

/// sgd, adam, adamw
const std::vector<std::string>& update_rule_names();

} // namespace troupe

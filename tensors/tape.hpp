#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/variable.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace troupe {

/// Writes down the ops that run while it lives, and runs them backward:
///
///   tape t;
///   auto loss = cross_entropy(model(x), labels);
///   auto gradients = t.gradient(loss, model.variables());
///
/// A tape records until it is asked for gradients. One tape records at a time:
/// a newer one shadows the older, whose values ops refuse meanwhile. A tape
/// belongs to the context that it was made in. Gradients are constants: no tape
/// records what they were computed from.
class tape {
public:
  /// Called when the gradient of `variables[index]` is complete, while backward
  /// still runs; each exactly once, also for one that the loss does not depend
  /// on (its gradient is zero).
  using completed = std::function<void(std::size_t index)>;

  tape();
  ~tape();
  tape(const tape&) = delete;
  tape& operator=(const tape&) = delete;

  /// Makes the tape follow a tensor that is no variable.
  /// @errors throws std::logic_error unless it is float32 or float64, and if a
  ///         tape records it already.
  tensor watch(const tensor& x);

  /// d loss / d variable for each, in tensors of their own. Zeros for a
  /// variable that the loss does not depend on. Values that only backward
  /// needed are freed as it passes them, so a tape can be asked once.
  /// @shape loss  any; what is differentiated is the sum of its elements.
  /// @errors throws std::logic_error if the tape was asked before, does not
  ///         know the loss, or a variable is listed twice.
  tensors gradient(const tensor& loss, std::span<const variable> variables);

  /// The gradients of watched tensors, in tensors of their own.
  /// @errors throws std::logic_error as for variables, and for a tensor that
  ///         the tape does not watch.
  tensors gradient(const tensor& loss, std::span<const tensor> watched);

  /// The gradients of variables in `variable.gradient()`, whose elements are
  /// overwritten: for loops that reuse these buffers in every step.
  /// @cost allocates nothing for the gradients.
  void gradient_into_variables(const tensor& loss,
                               std::span<const variable> variables,
                               const completed& hook = {});

  /// The tape that records the running code; null: none.
  static tape* recording();

  /// Whether a tape of the running code that was not asked yet needs the
  /// elements of `x` for its gradients.
  static bool holds(const tensor& x);

  // For `apply`.

  /// Whether this tape records any of these inputs.
  bool knows(std::span<const tensor> in) const;

  /// Refuses inputs that another tape records.
  /// @errors throws std::logic_error that names the op and the input.
  void check_others(const op& what, std::span<const tensor> in) const;

  /// Records one op.
  /// @param call its call, with plain handles of the inputs.
  /// @param in   the inputs, as the caller of the op gave them.
  /// @returns the result, as a value of this tape.
  tensor record(const op& what, const op_call& call,
                std::span<const tensor> in);

private:
  friend bool is_recorded(const tensor& x);
  struct impl;
  impl* impl_;
};

/// Whether a tape of the running code records what is computed from `x`: a
/// variable or a value of a tape that was not asked for gradients yet.
bool is_recorded(const tensor& x);

/// While it lives, no tape that was made before records the running code, and
/// variables and values of these tapes are constants. What these tapes need
/// must not be overwritten meanwhile.
class pause_recording {
public:
  pause_recording();
  ~pause_recording();
  pause_recording(const pause_recording&) = delete;
  pause_recording& operator=(const pause_recording&) = delete;

private:
  tape* before_;
};

} // namespace troupe

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
/// One tape records at a time; a newer one shadows the older. A tape belongs to
/// the context that it was made in.
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
  tensor watch(const tensor& x);

  /// d loss / d variable for each, in `variable.gradient()`, overwriting what
  /// was there. Values that only backward needed are freed as it passes them,
  /// so a tape can be asked once.
  /// @shape loss  any; what is differentiated is the sum of its elements.
  /// @errors throws std::logic_error if the tape was asked before, or does not
  ///         know the loss.
  tensors gradient(const tensor& loss, std::span<const variable> variables,
                   const completed& hook = {});

  /// The same for watched tensors.
  tensors gradient(const tensor& loss, std::span<const tensor> watched);

  /// For `apply`: whether any input is known, and the record of one op.
  bool knows(std::span<const tensor> in) const;
  tensor record(const op& what, const op_call& call);

private:
  struct impl;
  impl* impl_;
};

} // namespace troupe

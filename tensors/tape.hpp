#pragma once

#include "troupe/tensors/op.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/tensors/variable.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace troupe {

/// Records the ops that run during its lifetime, and computes gradients from
/// them:
///
///   tape t;
///   auto loss = cross_entropy(model(x), labels);
///   auto gradients = t.gradient(loss, model.variables());
///
/// A tape records until gradients are requested. Only one tape records at a
/// time: a newer tape shadows the older ones. While the newer tape records, ops
/// reject values that older tapes track. A tape belongs to the context in which
/// it was made. Gradients are constants: no tape tracks them.
class tape {
public:
  /// Is called once for each variable, when the gradient of `variables[index]`
  /// is complete; the backward pass may still continue. It is also called for a
  /// variable on which the loss does not depend; its gradient is zero.
  using completed = std::function<void(std::size_t index)>;

  tape();
  ~tape();
  tape(const tape&) = delete;
  tape& operator=(const tape&) = delete;

  /// Makes the tape track a tensor that is not a variable.
  /// @returns the tracked tensor.
  /// @errors throws std::logic_error if `input` is neither float32 nor float64,
  ///         or if a tape tracks it already.
  tensor watch(const tensor& input);

  /// Returns d loss / d variable for each variable, in new tensors. The
  /// gradient is zero if the loss does not depend on the variable. Saved values
  /// are freed during the backward pass, so gradients can be requested only
  /// once.
  /// @shape loss  any; the sum of its elements is differentiated.
  /// @errors throws std::logic_error if gradients were requested before, the
  ///         tape does not track the loss, or a variable is listed twice.
  tensors gradient(const tensor& loss, std::span<const variable> variables);

  /// Returns the gradients of watched tensors, in new tensors.
  /// @errors throws std::logic_error if gradients were requested before, or the
  ///         tape does not track the loss. Throws it if a listed tensor is not
  ///         watched, or is listed twice.
  tensors gradient(const tensor& loss, std::span<const tensor> watched);

  /// Returns d loss / d variable for each variable. A gradient is sparse if
  /// only ops with sparse gradients, such as `embedding_lookup`, contribute to
  /// it: it has the rows that they have read. It has no rows if such ops have
  /// read the variable, and no others, but the loss does not depend on them.
  /// All other gradients are dense, also that of a variable that no op has
  /// read.
  /// @errors as `gradient`.
  parameter_gradients sparse_gradients(const tensor& loss,
                                       std::span<const variable> variables);
  parameter_gradients sparse_gradients(const tensor& loss,
                                       std::span<const tensor> watched);

  /// Writes the gradient of each variable to `variable.gradient()`. A training
  /// loop can thus reuse these buffers in each step.
  /// @cost allocates nothing for the gradients.
  void gradient_into_variables(const tensor& loss,
                               std::span<const variable> variables,
                               const completed& hook = {});

  /// Writes the gradients of `variables` as the function above, and sets
  /// `rows[i]` to the sparse gradient of `tables[i]`. It has no rows if the
  /// loss does not depend on the table. The hook is not called for tables.
  /// @param rows as many as `tables`.
  /// @errors as `gradient`; also throws std::logic_error that names a table
  ///         which an op without a sparse gradient has read.
  /// @cost for the tables, the cost of the rows that ops have read.
  void gradient_into_variables(const tensor& loss,
                               std::span<const variable> variables,
                               std::span<const variable> tables,
                               parameter_gradients& rows,
                               const completed& hook = {});

  /// Returns the tape that records the ops of the current context
  /// (context.hpp). Null: none.
  static tape* recording();

  /// True if a tape of the current context needs the elements of `x` for
  /// gradients that are not yet requested.
  static bool holds(const tensor& x);

  // Only `troupe::apply` (op.hpp), which runs an op, calls the functions below.

  /// True if this tape tracks any of these inputs.
  bool tracks(std::span<const tensor> in) const;

  /// Checks that no other tape tracks an input.
  /// @errors throws std::logic_error that names the op and the input.
  void check_other_tapes(const op& definition,
                         std::span<const tensor> in) const;

  /// Records one op.
  /// @param kernels The kernels that were run. Null: the op reshapes.
  /// @param outputs What the shape rule says of the outputs.
  /// @param call The call, whose options and saved tensors are taken. Its
  ///        outputs become values of this tape, unless they have no gradient.
  /// @param plain The inputs of the kernel, untracked.
  /// @param in The inputs as passed by the caller of the op.
  void record(const op& definition, const op_kernels* kernels,
              const op_outputs& outputs, op_call& call,
              small_list<tensor, 3>&& plain, std::span<const tensor> in);

private:
  friend bool is_recorded(const tensor& x);
  struct impl;
  impl* impl_;
};

/// True if an active tape would record an op with input `x`: `x` is a variable,
/// or the tape tracks `x`. A tape is active until its gradients are requested.
bool is_recorded(const tensor& x);

/// While this object lives, the tapes that the current context already has
/// record nothing. A tensor that one of these tapes tracks is then a constant.
/// A variable is a constant too, unless a newer tape records. Do not overwrite
/// elements that the paused tapes need: such writes throw no error meanwhile.
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

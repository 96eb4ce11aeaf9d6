#pragma once

#include "troupe/strategies/parameter_server/row_list.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

// The values of one part of a variable at its shard, and how they change.

namespace troupe::parameter_server {

/// Changes one part of a variable: all its elements, or some of its rows. If a
/// row occurs several times, its changes take place one after the other.
struct part_change {
  enum class kind : std::uint8_t {
    assign,
    add,
    subtract,
    minimum,  ///< Of the element and the operand.
    maximum,  ///< Of the element and the operand.
    gradient, ///< One step of `rule`. Gradients of one row are added first.
    /// Keeps the gradient of one replica for a synchronous step.
    contribute,
    /// One step of `rule` by the sum of the gradients that some replicas have
    /// contributed to a synchronous step. Has no operand. The part forgets
    /// what was contributed to this step and to earlier ones, and takes no
    /// more. Nothing happens if it was applied before.
    apply_contributions,
    restore_slot, ///< Sets one slot of an optimizer, as in a checkpoint.
    /// Sets the number of steps of an optimizer, and forgets all contributions.
    /// Has no operand.
    restore_steps,
    /// Counts a step of `rule` without a gradient, because the step is skipped.
    /// Changes no element, and has no operand. No message has it.
    count_step,
  };

  kind what = kind::assign;
  tensor all{};    ///< Operand for all elements. Empty: `rows` is given.
  row_list rows{}; ///< Operands for some rows.
  /// Identifies the state of the rule: each optimizer has its own.
  std::uint32_t optimizer = 0;
  std::optional<update_rule> rule{}; ///< Of `kind::gradient`.
  /// Of `kind::gradient`: replaces the learning rate of the rule.
  std::optional<float> learning_rate{};
  /// Of `kind::gradient`: the gradient is multiplied by it first. If it is a
  /// sum over examples, this is 1 divided by their number.
  float scale = 1;
  /// Of `kind::contribute` and `kind::apply_contributions`: number of the
  /// synchronous step. Steps are applied in ascending order.
  std::uint64_t step = 0;
  std::uint32_t replica = 0; ///< Of `kind::contribute`.
  /// Of `kind::apply_contributions`: the replicas whose gradients count,
  /// ascending. Empty: the step counts for the rule, and changes no element.
  std::vector<std::uint32_t> contributors{};
  std::uint32_t slot = 0;  ///< Of `kind::restore_slot`.
  std::uint64_t steps = 0; ///< Of `kind::restore_steps`.

  bool needs_rule() const {
    return what == kind::gradient || what == kind::apply_contributions
           || what == kind::restore_slot || what == kind::restore_steps
           || what == kind::count_step;
  }
  bool has_operand() const {
    return what != kind::apply_contributions && what != kind::restore_steps
           && what != kind::count_step;
  }
  /// True if the change follows from the elements and the operand alone.
  bool changes_elements_by_operand() const { return what <= kind::maximum; }
};

/// Maximum number of synchronous steps for which a part keeps contributions.
inline constexpr std::size_t max_waiting_steps = 64;
/// Maximum number of replicas that contribute to a step.
inline constexpr std::uint32_t max_contributors = 4096;

/// Returns the name of a kind of change in the API: "assign_add".
std::string_view to_string(part_change::kind x);

/// @errors throws std::invalid_argument unless the dtype is float32, float64,
///         int32 or int64.
void check_dtype(const tensor_spec& variable);

struct part_image;

/// One part of a variable, with the slots of the optimizers that have updated
/// it. A value that a reader has got never changes: the next change copies it.
class stored_part {
public:
  /// @errors as `check_dtype`
  explicit stored_part(tensor initial);

  /// Shares its elements with this object until the next change.
  const tensor& value() const { return value_; }

  /// Checks a change without making it.
  /// @errors throws std::invalid_argument if the shape or dtype of the operand
  ///         is not that of the part, if there are both operands or none, for a
  ///         gradient of a part that is not float32, and for a gradient without
  ///         a rule or with another one than the optimizer has, if the
  ///         learning rate is negative or a number is not finite, if a
  ///         contribution has rows or would be for one step too many, and if a
  ///         replica has contributed nothing to the step to apply.
  void check(const part_change& change) const;

  /// Makes a change.
  /// @errors as `check`, and then nothing has changed. A contribution may be
  /// for
  ///         one step too many: it was stored with others.
  /// @cost one pass over the elements that change. If a reader still has the
  ///       value, a copy of it. A gradient of some rows moves only these rows
  ///       and their slots. A contribution shares its elements with the caller,
  ///       and costs no pass.
  void apply(const part_change& change);

  /// Number of changes so far.
  std::uint64_t version() const { return version_; }
  /// Returns a slot of an optimizer; its initial value if the optimizer has not
  /// updated this part. It shares its elements until the next update.
  /// @errors throws std::invalid_argument if the rule has no such slot.
  tensor slot(std::uint32_t optimizer, const update_rule& rule,
              std::uint32_t index) const;
  /// Returns the number of steps of an optimizer.
  std::uint64_t steps(std::uint32_t optimizer) const;
  /// Bytes of the value, all slots and the contributions that wait.
  std::uint64_t bytes() const;
  /// Returns the bytes by which a change would increase `bytes`, at most.
  std::uint64_t growth(const part_change& change) const;

  /// Returns what this part holds (part_image.hpp), and appends its tensors to
  /// `beside`. They share their elements until the next change.
  part_image save(std::vector<tensor>& beside) const;
  /// Makes the part that was saved, and removes its tensors from `beside`.
  /// @errors throws std::invalid_argument that says what is impossible, and as
  ///         `check_dtype`.
  static stored_part restore(const part_image& from,
                             std::span<const tensor>& beside);

private:
  struct optimizer_state {
    std::uint64_t steps = 0;
    std::vector<tensor> slots;
  };

  void check_operand(const part_change& change) const;
  void check_rule(const part_change& change) const;
  void check_step(const part_change& change) const;
  optimizer_state& state_of(const part_change& change);
  void restore(const part_change& change);
  void change_all(const part_change& change);
  void change_rows(const part_change& change);
  void contribute(const part_change& change);
  void apply_contributions(const part_change& change);
  /// Makes one step of a rule.
  /// @param all gradient of all elements. Null: `rows` are given, or none.
  void apply_gradient(const part_change& change, const float* all,
                      const sparse_rows& rows);

  tensor value_;
  std::map<std::uint32_t, optimizer_state> optimizers_;
  std::uint64_t version_ = 0;
  /// By step and replica: gradients that wait for their step to be applied.
  std::map<std::uint64_t, std::map<std::uint32_t, tensor>> contributions_;
  std::uint64_t next_step_ = 0; ///< All steps before it were applied.
};

} // namespace troupe::parameter_server

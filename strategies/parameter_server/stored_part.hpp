#pragma once

#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"
#include "troupe/tensors/update_rules.hpp"

#include <cstdint>
#include <map>
#include <optional>
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
  };

  kind what = kind::assign;
  tensor all{};       ///< Operand for all elements. Empty: `rows` is given.
  sparse_rows rows{}; ///< Operands for some rows.
  /// Identifies the state of the rule: each optimizer has its own.
  std::uint32_t optimizer = 0;
  std::optional<update_rule> rule{}; ///< Of `kind::gradient`.
  /// Of `kind::gradient`: replaces the learning rate of the rule.
  std::optional<float> learning_rate{};
  /// Of `kind::gradient`: the gradient is multiplied by it first. If it is a
  /// sum over examples, this is 1 divided by their number.
  float scale = 1;
};

/// Returns the name of a kind of change in the API: "assign_add".
std::string_view to_string(part_change::kind x);

/// @errors throws std::invalid_argument unless the dtype is float32, float64,
///         int32 or int64.
void check_dtype(const tensor_spec& variable);

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
  ///         a rule or with another one than the optimizer has, and if the
  ///         learning rate is negative or a number is not finite.
  void check(const part_change& change) const;

  /// Makes a change.
  /// @errors as `check`, and then nothing has changed.
  /// @cost one pass over the elements that change. If a reader still has the
  ///       value, a copy of it. A gradient of some rows moves only these rows
  ///       and their slots.
  void apply(const part_change& change);

  /// Number of changes so far.
  std::uint64_t version() const { return version_; }
  /// Bytes of the value and of all slots.
  std::uint64_t bytes() const;

private:
  struct optimizer_state {
    std::uint64_t steps = 0;
    std::vector<tensor> slots;
  };

  void apply_gradient(const part_change& change);

  tensor value_;
  std::map<std::uint32_t, optimizer_state> optimizers_;
  std::uint64_t version_ = 0;
};

} // namespace troupe::parameter_server

#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace troupe {

/// The channel of the lane on which the source sends.
inline constexpr std::uint32_t state_channel = 1;

/// One part of the state that a process copies before it joins, while the
/// members go on (docs/protocols/state_transfer.md). A transfer on the lane
/// carries one item.
struct state_item {
  /// The numbers are those of the wire.
  enum class kind : std::uint8_t {
    values = 0,  ///< Elements of a tensor of the state.
    sums = 1,    ///< Elements of the summed gradient of the next step.
    skipped = 2, ///< The next step has changed nothing.
    paused = 3,  ///< The source has stopped after `steps`, for a view change.
    ended = 4,   ///< No more items follow; `text` says why.
  };

  kind what = kind::values;
  std::uint64_t call = 0; ///< Calls that the source has completed.
  /// Steps that the model has made, including that of this item.
  std::uint64_t steps = 0;
  std::uint32_t tensor = 0;   ///< `values`: index of the tensor.
  std::uint32_t tensors = 0;  ///< `values`: number of tensors.
  std::uint64_t first = 0;    ///< First element of the part.
  std::uint64_t total = 0;    ///< Elements of the whole tensor.
  std::uint64_t examples = 0; ///< `sums`: examples of the global batch.
  double learning_rate = 0;   ///< `sums`
  /// Steps that follow and that the source has not sent yet.
  std::uint64_t waiting = 0;
  std::string text{};
  troupe::tensor part{}; ///< [n] float32. Empty: the item has no elements.

  /// True if this item is the last one of its step, or of the values.
  bool is_last() const;
};

/// The tensors of the transfer that carries an item: a header with a hash of
/// the elements, and the elements.
/// @cost one read of the elements.
tensors to_transfer(const state_item& item);

/// Reads an item. Accepts any tensors.
/// @returns the item, or why it is malformed or damaged.
/// @cost one read of the elements.
std::variant<state_item, std::string> read_item(const tensors& transfer);

} // namespace troupe

#pragma once

#include "troupe/training/loop/model/claimed_slices.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/model/update_target.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// Adds the gradients of all replicas on their device, and updates the
/// parameters, unless a loss or a sum is not finite. The device decides that;
/// no call waits for it.
/// @cost R - 1 additions of gradients, and for each trained range a check and
///       an update.
class device_update {
public:
  /// @param trained ranges of the flat buffer that the update changes.
  device_update(model_state& model, std::vector<element_range> trained);

  /// Begins a step. The following calls are made in their order.
  void begin();
  /// Skips the update of the step if a loss is not finite.
  /// @param losses of a replica, [n] float32, n > 0.
  void check(const tensor& losses);
  /// Adds the gradients into that of replica 0, in the order of the canonical
  /// tree. Skips the update if a sum is not finite.
  void add_gradients();
  void apply(const rule_step& update);

  /// int32 [1] on the device. Not 0: the update of the step is skipped.
  const tensor& is_skipped() const { return is_skipped_; }

private:
  void add_range(std::size_t first, std::size_t last);
  std::int32_t* flag() const;

  const std::vector<element_range> trained_;
  const update_target target_;
  device_backend& backend_;       ///< Backend of the target.
  std::vector<tensor> gradients_; ///< By replica.
  tensor is_skipped_;
};

} // namespace troupe

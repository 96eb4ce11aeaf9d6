#pragma once

#include "troupe/tensors/device_backend.hpp"
#include "troupe/training/loop/shared_update.hpp"
#include "troupe/training/loop/update_target.hpp"

#include <atomic>
#include <mutex>
#include <vector>

namespace troupe {

/// A shared update of parameters on a device. One replica gives the whole
/// update to the device, while the others wait for the end: it adds the
/// gradients, into that of replica 0, and updates each trained range.
/// @errors throws `device_error` if a call of the device fails. Then the
///         parameters may be updated in part.
/// @cost R - 1 additions of gradients, and an update for each trained range.
///       `has_finite_sums` waits for the device once. If an element is large,
///       each replica waits for a check of the sums.
class device_update final : public shared_update {
public:
  device_update(model_state& model, std::vector<element_range> trained);

  bool has_finite_sums(const tensor& gradient) const override;
  void apply(const rule_step& update) override;

private:
  void reset() override;
  bool sums_are_finite() override;
  /// Adds the gradients, unless a replica has added them in this step.
  void add_gradients();
  void add_range(std::size_t first, std::size_t last);

  const update_target target_;
  device_backend& backend_; ///< Of the target.
  std::atomic<bool> is_claimed_ = false;
  std::mutex lock_;       ///< Guards the next member.
  bool has_sums_ = false; ///< The gradient of replica 0 is the sum of all.
};

} // namespace troupe

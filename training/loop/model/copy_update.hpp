#pragma once

#include "troupe/training/loop/model/claimed_slices.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/loop/model/update_target.hpp"

#include <cstdint>

namespace troupe {

/// Updates one copy of the parameters and of the update rule's slots by sums
/// that are on the CPU. On a device, the sums are copied to the gradient buffer
/// of the copy's replica first.
class copy_update {
public:
  copy_update(model_state& model, std::uint32_t copy);

  /// Updates a range of elements of the flat buffers.
  /// @param sums gradient of the elements from the range's beginning on.
  void operator()(const rule_step& update, const element_range& range,
                  const float* sums) const;
  /// Updates a range of elements by those of the gradient buffer of the copy's
  /// replica.
  /// @pre the copy is on a device.
  void by_gradient(const rule_step& update, const element_range& range) const;

private:
  void update_on_device(const rule_step& update, const element_range& range,
                        const float* sums) const;

  update_target target_;
  tensor gradient_;
};

} // namespace troupe

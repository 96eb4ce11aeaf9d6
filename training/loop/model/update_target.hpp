#pragma once

#include "troupe/tensors/device.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe {

/// Returns the address of the elements of a float32 tensor on its device.
/// @errors throws std::logic_error while a tape needs the elements.
inline float* float_address(tensor x) {
  return reinterpret_cast<float*>(x.mutable_address());
}

/// Parameters and their slots on one device, which a step of an update rule
/// changes. The tensors live as long as this object is used.
class update_target {
public:
  /// @param slots as many as the rule has, with the layout of `values`.
  update_target(const tensor& values, std::span<const tensor> slots)
    : on_{values.device()}, values_{float_address(values)} {
    for (std::size_t s = 0; s < slots.size(); ++s)
      slots_.at(s) = float_address(slots[s]);
  }

  const device& on() const { return on_; }

  /// Updates n elements, on the calling thread or by a call of the device.
  /// @param at index of the first element.
  /// @param gradient of the element `at`, on the device.
  /// @param is_skipped on a device other than the CPU: as of
  ///        `device_backend::update`.
  void update(const rule_step& rule, std::size_t at, const float* gradient,
              std::size_t n, const std::int32_t* is_skipped = nullptr) const;

  /// Updates the rows of a gradient by a call of the device.
  /// @param gradient sorted, with the elements on the device.
  void update_rows(const rule_step& rule, const sparse_rows& gradient) const;

private:
  device on_;
  float* values_;
  std::array<float*, 2> slots_{}; ///< Null: the rule has no such slot.
};

} // namespace troupe

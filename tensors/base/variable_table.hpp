#pragma once

#include "troupe/tensors/base/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace troupe {

/// Maps the id of a variable to the index of its value in a tape. Uses open
/// addressing, because standard maps allocate memory for each element.
class variable_table {
public:
  static constexpr std::uint32_t absent = ~0u;

  /// Returns the index stored for `id`; `absent` if there is none.
  std::uint32_t find(std::uint32_t id) const {
    return slots_.empty() ? absent : slots_[index_of(id)].value_index;
  }

  /// Returns a reference to the index of `id`; initially `absent`.
  std::uint32_t& operator[](std::uint32_t id) {
    if (2 * (used_ + 1) > slots_.size())
      grow();
    auto& entry = slots_[index_of(id)];
    used_ += entry.id == 0;
    entry.id = id;
    return entry.value_index;
  }

private:
  struct slot {
    std::uint32_t id = 0; ///< Zero: the slot is empty.
    std::uint32_t value_index = absent;
  };

  std::size_t index_of(std::uint32_t id) const {
    const auto mask = slots_.size() - 1;
    auto at = std::size_t{id} * 0x9E37'79B1u & mask;
    while (slots_[at].id != 0 && slots_[at].id != id)
      at = (at + 1) & mask;
    return at;
  }

  void grow() {
    const auto old = std::exchange(slots_, {});
    slots_.resize(std::max<std::size_t>(64, old.size() * 2));
    for (const auto& x : old)
      if (x.id != 0)
        slots_[index_of(x.id)] = x;
  }

  /// The size is a power of two; at most half of the slots are used.
  pooled<slot> slots_;
  std::size_t used_ = 0;
};

} // namespace troupe

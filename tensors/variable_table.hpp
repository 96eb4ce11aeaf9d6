#pragma once

#include "troupe/tensors/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace troupe {

/// Maps the id of a variable to the index of its value in a tape. Uses open
/// addressing, because standard maps allocate memory for each element.
class leaf_table {
public:
  static constexpr std::uint32_t absent = ~0u;

  /// Returns the index stored for `id`; `absent` if there is none.
  std::uint32_t find(std::uint32_t id) const {
    return slots_.empty() ? absent : slots_[index_of(id)].place;
  }

  /// Returns a reference to the index of `id`; initially `absent`.
  std::uint32_t& operator[](std::uint32_t id) {
    if (2 * (used_ + 1) > slots_.size())
      grow();
    auto& at = slots_[index_of(id)];
    used_ += at.id == 0;
    at.id = id;
    return at.place;
  }

private:
  struct slot {
    std::uint32_t id = 0; ///< Zero: the slot is empty.
    std::uint32_t place = absent;
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

  pooled<slot>
    slots_; ///< The size is a power of two; at most half of the slots are used.
  std::size_t used_ = 0;
};

} // namespace troupe

#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <vector>

namespace troupe {

/// @shape [number of ids]
inline tensor ids_of(const std::vector<std::int64_t>& ids) {
  return tensor::of<std::int64_t>({std::int64_t(ids.size())}, ids);
}

} // namespace troupe

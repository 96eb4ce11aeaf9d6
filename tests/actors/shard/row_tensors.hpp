#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <vector>

namespace troupe::test {

inline tensor floats(const std::vector<float>& xs) {
  return tensor::of<float>({std::int64_t(xs.size())}, xs);
}

/// Numbers of rows.
inline tensor numbers(const std::vector<std::int64_t>& xs) {
  return tensor::of<std::int64_t>({std::int64_t(xs.size())}, xs);
}

} // namespace troupe::test

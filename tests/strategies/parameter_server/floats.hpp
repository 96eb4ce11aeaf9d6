#pragma once

#include "troupe/tensors/sparse_rows.hpp"

#include <cstdint>
#include <vector>

namespace troupe::parameter_server {

inline tensor floats(const shape& dims, const std::vector<float>& xs) {
  return tensor::of<float>(dims, xs);
}

inline std::vector<float> values(const tensor& x) {
  const auto all = x.data<float>();
  return {all.begin(), all.end()};
}

/// Returns these rows of a table with dimensions `dims`.
inline sparse_rows rows_of(const shape& dims, std::vector<std::int64_t> ids,
                           const tensor& rows) {
  return {dims, tensor::of<std::int64_t>({std::int64_t(ids.size())}, ids),
          rows};
}

} // namespace troupe::parameter_server

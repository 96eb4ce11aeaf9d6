#pragma once

#include "troupe/tensors/op.hpp"

#include <span>

namespace troupe::detail {

/// Returns the inputs of a call, of which those without a dtype of their own
/// are converted to `type`.
inline small_list<tensor, 3>
converted_inputs(const op& definition, std::span<const tensor> in, dtype type) {
  small_list<tensor, 3> out;
  for (std::size_t i = 0; i < in.size(); ++i)
    out.push_back(definition.input(i).dtypes.empty() && in[i] ? in[i].as(type)
                                                              : in[i]);
  return out;
}

} // namespace troupe::detail

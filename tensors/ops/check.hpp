#pragma once

#include "troupe/tensors/tensor.hpp"

#include <span>
#include <stdexcept>
#include <string>

namespace troupe::ops {

/// Checks the inputs of an op.
/// @errors if `good` is false, throws std::logic_error that names what was
///         expected and the specs of all inputs.
inline void require(bool good, const char* expected,
                    std::span<const tensor_spec> in) {
  if (good)
    return;
  std::string text = std::string{"expected "} + expected + "; got";
  for (const auto& x : in)
    text += ' ' + to_string(x);
  throw std::logic_error(text);
}

} // namespace troupe::ops

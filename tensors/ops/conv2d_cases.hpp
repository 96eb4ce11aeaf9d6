#pragma once

#include "troupe/tensors/op.hpp"

#include <array>

namespace troupe::ops {

// Inputs with which the kernels of conv2d and conv2d_max_pool are checked. Only
// the sources of these ops include this file.

extern const std::array<op_case, 7> conv2d_cases;
extern const std::array<op_case, 5> conv2d_max_pool_cases;

} // namespace troupe::ops

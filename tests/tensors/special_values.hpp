#pragma once

#include <limits>

namespace troupe::test {

inline constexpr auto infinity = std::numeric_limits<float>::infinity();
inline constexpr auto nan = std::numeric_limits<float>::quiet_NaN();

} // namespace troupe::test

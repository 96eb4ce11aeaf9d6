#pragma once

#include <string_view>

namespace troupe::test {

/// True if the text contains the part.
inline bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

} // namespace troupe::test

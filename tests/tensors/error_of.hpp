#pragma once

#include <stdexcept>
#include <string>

namespace troupe {

/// Returns the text of the std::logic_error that a call throws.
std::string error_of(const auto& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

} // namespace troupe

#pragma once

#include <exception>
#include <functional>
#include <string>

namespace troupe::test {

/// Returns the text of the exception that a call throws.
inline std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

} // namespace troupe::test

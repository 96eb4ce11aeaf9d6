#pragma once

#include <string>

namespace troupe::test {

/// Returns the text of the exception that a function throws, or "no error". An
/// exception of another type passes.
template <class Error, class F>
std::string message_of(F&& function) {
  try {
    function();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

} // namespace troupe::test

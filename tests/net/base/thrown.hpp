#pragma once

#include <stdexcept>
#include <string>

/// The sentence that a person gets for a mistake; "" if there was none.
template <class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

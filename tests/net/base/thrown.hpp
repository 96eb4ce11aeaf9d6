#pragma once

#include <stdexcept>
#include <string>

/// Returns the text of the std::invalid_argument that `f` throws. Empty: `f`
/// throws nothing.
template <class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

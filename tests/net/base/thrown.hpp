#pragma once

#include <stdexcept>
#include <string>

/// Returns the text of the exception; "" if none was thrown.
template <class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

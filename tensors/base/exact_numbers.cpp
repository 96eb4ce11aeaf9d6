#include "troupe/tensors/base/exact_numbers.hpp"

#include <charconv>

namespace troupe {

namespace {

template <class T>
std::string shortest_text(T x) {
  char text[32]; // the longest double has 24 characters
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

} // namespace

std::string exact_text(float x) {
  return shortest_text(x);
}

std::string exact_text(double x) {
  return shortest_text(x);
}

std::string exact_text(const hyperparameters& all) {
  std::string out;
  for (const auto& one : all)
    out += ' ' + one.name + '=' + exact_text(one.value);
  return out;
}

} // namespace troupe

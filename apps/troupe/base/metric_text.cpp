#include "troupe/apps/troupe/base/metric_text.hpp"

#include <cmath>
#include <cstdio>

namespace {

/// Formats a number, or says that it is not finite.
std::string number_text(double x) {
  char text[32] = "is not finite";
  if (std::isfinite(x))
    std::snprintf(text, sizeof text, std::abs(x) < 1e5 ? "%.4f" : "%.3e", x);
  return text;
}

} // namespace

std::string text_of_evaluation(const troupe::evaluation& found) {
  auto out = "loss " + number_text(found.loss);
  for (const auto& one : found.metrics)
    out += "  " + one.name + " " + number_text(one.value);
  return out;
}

std::string text_of_test(const troupe::evaluation& test) {
  std::string out;
  for (const auto& one : test.metrics)
    out += "test " + one.name + " " + number_text(one.value) + "  ";
  return out + "test loss " + number_text(test.loss);
}

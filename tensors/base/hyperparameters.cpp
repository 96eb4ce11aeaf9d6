#include "troupe/tensors/base/hyperparameters.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace troupe::detail {

namespace {

std::string text_of(double x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  return {text, end};
}

} // namespace

double as_written(float x) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  double out = x;
  std::from_chars(text, end, out);
  return out;
}

hyperparameter_reader::hyperparameter_reader(
  std::string_view owner, std::span<const hyperparameter> values)
  : owner_{owner}, values_{values} {}

const double* hyperparameter_reader::find(std::string_view name) {
  known_.emplace_back(name);
  const auto at = std::ranges::find(values_, name, &hyperparameter::name);
  return at == values_.end() ? nullptr : &at->value;
}

void hyperparameter_reader::operator()(std::string_view name, float& x) {
  if (const auto* value = find(name)) {
    require(std::isfinite(static_cast<float>(*value)), owner_, name, *value,
            "it must be a finite number");
    x = static_cast<float>(*value);
  }
}

void hyperparameter_reader::operator()(std::string_view name, bool& x) {
  if (const auto* value = find(name)) {
    require(*value == 0 || *value == 1, owner_, name, *value,
            "it must be true or false");
    x = *value == 1;
  }
}

void hyperparameter_reader::operator()(std::string_view name,
                                       std::uint64_t& x) {
  if (const auto* value = find(name)) {
    require(*value >= 0 && *value <= 0x1p53 && std::floor(*value) == *value,
            owner_, name, *value, "it must be a whole number from 0");
    x = static_cast<std::uint64_t>(*value);
  }
}

void hyperparameter_reader::finish() const {
  for (const auto& each : values_) {
    if (std::ranges::find(known_, each.name) == known_.end())
      throw std::invalid_argument(
        owner_ + " has no '" + each.name + "'; it has "
        + (known_.empty() ? "no numbers" : joined(known_)));
    if (std::ranges::count(values_, each.name, &hyperparameter::name) > 1)
      throw std::invalid_argument(owner_ + " was given '" + each.name
                                  + "' twice; give it once");
  }
}

std::string joined(std::span<const std::string> names) {
  std::string out;
  for (const auto& name : names)
    out += (out.empty() ? "" : ", ") + name;
  return out;
}

void require(bool holds, std::string_view owner, std::string_view name,
             double value, std::string_view rule) {
  if (!holds)
    throw std::invalid_argument(std::string{owner} + ": " + std::string{name}
                                + " is " + text_of(value) + "; "
                                + std::string{rule});
}

} // namespace troupe::detail

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A number with its name, as descriptions of models and jobs hold it. A flag
/// is 0 or 1.
struct named_number {
  std::string name;
  double value = 0;

  friend bool operator==(const named_number&, const named_number&) = default;
};
using named_numbers = std::vector<named_number>;

namespace detail {

/// The number that reads as `x` does: 0.1, not 0.10000000149011612.
double as_written(float x);

/// Reads named numbers into the members that `into` calls `visit` with, and
/// writes them back. A type T takes part through
///   template <class F> void list(T& x, F visit) {
///     visit("learning_rate", x.learning_rate);
///   }
class number_reader {
public:
  /// @param owner what has these numbers: "adam".
  number_reader(std::string_view owner, std::span<const named_number> given);

  void operator()(std::string_view name, float& x);
  void operator()(std::string_view name, bool& x);
  void operator()(std::string_view name, std::uint64_t& x);

  /// @errors throws std::invalid_argument if one was given that nobody has, or
  ///         one was given twice: a sentence with what there is.
  void finish() const;

private:
  const double* find(std::string_view name);

  std::string owner_;
  std::span<const named_number> given_;
  std::vector<std::string> known_;
};

struct number_writer {
  named_numbers* out;

  void operator()(std::string_view name, float x) const {
    out->push_back({std::string{name}, as_written(x)});
  }
  void operator()(std::string_view name, bool x) const {
    out->push_back({std::string{name}, x ? 1.0 : 0.0});
  }
  void operator()(std::string_view name, std::uint64_t x) const {
    out->push_back({std::string{name}, static_cast<double>(x)});
  }
};

/// "a, b, c"
std::string joined(std::span<const std::string> names);

/// @errors throws std::invalid_argument: "adam: beta1 is 2; it must be ...".
void require(bool holds, std::string_view owner, std::string_view name,
             double value, std::string_view rule);

} // namespace detail

} // namespace troupe

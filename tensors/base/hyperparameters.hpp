#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A number with its name, as in descriptions of models and jobs. A flag has
/// the value 0 or 1.
struct hyperparameter {
  std::string name;
  double value = 0;

  friend bool operator==(const hyperparameter&,
                         const hyperparameter&) = default;
};
using hyperparameters = std::vector<hyperparameter>;

namespace detail {

/// Returns the double with the same shortest decimal form as `x`: 0.1, not
/// 0.10000000149011612.
double as_written(float x);

/// Reads hyperparameters into the members of an object. For each type T, one
/// function passes all members to `visit`, which is a reader or a writer:
///   template <class F> void list(T& x, F visit) {
///     visit("learning_rate", x.learning_rate);
///   }
class hyperparameter_reader {
public:
  /// @param owner Name of the object in error messages: "adam".
  hyperparameter_reader(std::string_view owner,
                        std::span<const hyperparameter> values);

  void operator()(std::string_view name, float& x);
  void operator()(std::string_view name, bool& x);
  void operator()(std::string_view name, std::uint64_t& x);

  /// Checks that every given hyperparameter was read.
  /// @errors throws std::invalid_argument for an unknown name, with a list of
  ///         the known names, and for a name that was given twice.
  void finish() const;

private:
  const double* find(std::string_view name);

  std::string owner_;
  std::span<const hyperparameter> values_;
  std::vector<std::string> known_;
};

/// Writes the members of an object as hyperparameters.
struct hyperparameter_writer {
  hyperparameters* out;

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

/// Joins names with commas: "a, b, c".
std::string joined(std::span<const std::string> names);

/// Checks a condition on a hyperparameter.
/// @errors throws std::invalid_argument: "adam: beta1 is 2; it must be ...".
void require(bool holds, std::string_view owner, std::string_view name,
             double value, std::string_view rule);

} // namespace detail

} // namespace troupe

#pragma once

#include "troupe/tensors/optim/initializers.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

class layer;
using layer_ptr = std::shared_ptr<layer>;
using layer_list = std::vector<layer_ptr>;

/// Maximum of a count or an extent in a description.
inline constexpr std::int64_t max_extent = std::int64_t{1} << 24;

/// Range of an integer setting, and whether it is required.
struct integer_rule {
  bool required = false;
  std::int64_t low = 1;
  std::int64_t high = max_extent; ///< Inclusive.
};

/// Range of a real setting, and whether it is required.
struct real_rule {
  bool required = false;
  double low = -1e30;
  double below = 1e30; ///< Exclusive.
};

/// Visitor to which a layer passes its settings, in one function:
///
///   void visit_settings(layer_settings& s) override {
///     s.integer("units", units, {.required = true});
///   }
///
/// Troupe calls this function to read a description, to write a description,
/// and to list the known keys for an error about a misspelt key. When a
/// description is read, a member keeps its value if the description does not
/// contain its key.
/// @errors each function throws std::invalid_argument with one sentence: the
///         source, the key, the value and the valid range.
class layer_settings {
public:
  virtual ~layer_settings() = default;

  virtual void flag(std::string_view key, bool& setting) = 0;
  virtual void integer(std::string_view key, std::int64_t& setting,
                       const integer_rule& rule = {}) = 0;
  virtual void real(std::string_view key, double& setting,
                    const real_rule& rule = {}) = 0;

  /// Passes two integers: height and width. A single number in a description
  /// sets both integers.
  virtual void pair(std::string_view key, std::array<std::int64_t, 2>& setting,
                    const integer_rule& rule = {}) = 0;

  /// Passes a text, which must be one of `names`.
  virtual void text(std::string_view key, std::string& setting,
                    std::span<const std::string> names) = 0;

  /// Passes an initializer. In a description, the value is the name of an
  /// initializer, or {"name": ..., ...} with hyperparameters.
  virtual void initial(std::string_view key, initializer& setting) = 0;

  /// Passes a list of child layers, which must not be empty.
  virtual void layers(std::string_view key, layer_list& setting) = 0;

  /// Passes an enumerator. `names[i]` is the name of the enumerator with value
  /// i.
  template <class Enum>
  void choice(std::string_view key, Enum& setting,
              std::span<const std::string> names) {
    auto name = names[static_cast<std::size_t>(setting)];
    text(key, name, names);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name)
        setting = static_cast<Enum>(i);
  }
};

} // namespace troupe::models

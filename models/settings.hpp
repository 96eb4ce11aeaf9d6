#pragma once

#include "troupe/tensors/initializers.hpp"

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

/// Largest number that a description may give as a count or an extent.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 24;

/// Which integers a setting takes, and whether it must be given.
struct integer_rule {
  bool required = false;
  std::int64_t low = 1;
  std::int64_t high = largest_count; ///< Included.
};

/// Which numbers a setting takes, and whether it must be given.
struct real_rule {
  bool required = false;
  double low = -1e30;
  double below = 1e30; ///< Not included.
};

/// Where a layer lists its settings, once:
///
///   void list(settings& s) override {
///     s.integer("units", units, {.required = true});
///   }
///
/// The same list reads a description, writes one, and tells a key that no layer
/// knows from one that is merely misspelt. When a description is read, what the
/// member holds beforehand is its default.
/// @errors each throws std::invalid_argument with one sentence: where, the key,
///         the value, what would do.
class settings {
public:
  virtual ~settings() = default;

  virtual void flag(std::string_view key, bool& x) = 0;
  virtual void integer(std::string_view key, std::int64_t& x,
                       const integer_rule& rule = {}) = 0;
  virtual void real(std::string_view key, double& x,
                    const real_rule& rule = {}) = 0;

  /// Two integers for height and width; one number stands for both.
  virtual void pair(std::string_view key, std::array<std::int64_t, 2>& x,
                    const integer_rule& rule = {}) = 0;

  /// One of the names.
  virtual void text(std::string_view key, std::string& x,
                    std::span<const std::string> names) = 0;

  /// What fills a parameter: a name, or {"name": ..., ...} with its numbers.
  virtual void initial(std::string_view key, initializer& x) = 0;

  /// Layers inside this one; at least one.
  virtual void layers(std::string_view key, layer_list& x) = 0;

  /// An enumeration of which `names[i]` is the value i.
  template <class Enum>
  void choice(std::string_view key, Enum& x,
              std::span<const std::string> names) {
    auto name = names[static_cast<std::size_t>(x)];
    text(key, name, names);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name)
        x = static_cast<Enum>(i);
  }
};

} // namespace troupe::models

#pragma once

#include "troupe/models/settings.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Descriptions as JSON values: what description.cpp is made of.

namespace troupe::models::detail {

using json = nlohmann::ordered_json;

/// Keeps the order of keys; refuses what no description is: text that is no
/// JSON, more than `largest_text` bytes, brackets within more than
/// `deepest_brackets` others, a key given twice.
/// @errors throws std::invalid_argument: `where`, line, column, what would do.
json parse_json(std::string_view text, std::string_view where);
inline constexpr std::size_t largest_text = std::size_t{1} << 20;
inline constexpr int deepest_brackets = 100;

/// Objects and lists that hold objects on several lines, the others on one.
std::string pretty(const json& x);

/// A value as an error sentence quotes it, shortened.
std::string shown(const json& x);

/// One JSON object as it is read; remembers which keys were asked for.
class reader : public settings {
public:
  /// @param path of the object: "layers[2]"; empty at the top.
  /// @param kind what the object describes: "a dense layer".
  reader(const json& object, std::string where, std::string path,
         std::string kind, std::size_t depth);

  void flag(std::string_view key, bool& x) override;
  void integer(std::string_view key, std::int64_t& x,
               const integer_rule& rule) override;
  void real(std::string_view key, double& x, const real_rule& rule) override;
  void pair(std::string_view key, std::array<std::int64_t, 2>& x,
            const integer_rule& rule) override;
  void text(std::string_view key, std::string& x,
            std::span<const std::string> names) override;
  void initial(std::string_view key, initializer& x) override;
  void layers(std::string_view key, layer_list& x) override;

  /// A name, kept as it is.
  void name(std::string_view key, std::string& x, bool required);

  /// Between `least` and `most` integers.
  void integers(std::string_view key, std::vector<std::int64_t>& x,
                std::size_t least, std::size_t most);

  /// Refuses keys that nobody asked for.
  void finish() const;

  /// "layers[2].units", for a key of this object.
  std::string path_of(std::string_view key) const;

  /// Throws: where, the path of the key, `why`.
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;

private:
  const json* find(std::string_view key, bool required,
                   const std::string& wanted);
  [[noreturn]] void refuse_value(std::string_view key, const json& x,
                                 const std::string& wanted) const;
  initializer initializer_of(std::string_view key, const json& x) const;
  layer_ptr layer_at(const json& x, const std::string& path) const;

  const json* object_;
  std::string where_;
  std::string path_;
  std::string kind_;
  std::size_t depth_;
  std::vector<std::string> known_;
};

/// One JSON object as it is written.
class writer : public settings {
public:
  explicit writer(std::size_t depth) : depth_{depth} {}

  void flag(std::string_view key, bool& x) override;
  void integer(std::string_view key, std::int64_t& x,
               const integer_rule& rule) override;
  void real(std::string_view key, double& x, const real_rule& rule) override;
  void pair(std::string_view key, std::array<std::int64_t, 2>& x,
            const integer_rule& rule) override;
  void text(std::string_view key, std::string& x,
            std::span<const std::string> names) override;
  void initial(std::string_view key, initializer& x) override;
  void layers(std::string_view key, layer_list& x) override;

  json object = json::object();

private:
  std::size_t depth_;
};

} // namespace troupe::models::detail

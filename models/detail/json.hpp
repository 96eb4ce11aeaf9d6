#pragma once

#include "troupe/models/settings.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Functions that read and write descriptions as JSON values, for
// description.cpp.

namespace troupe::models::detail {

using json = nlohmann::ordered_json;

/// Parses JSON and keeps the order of keys. Rejects invalid JSON, duplicate
/// keys, more than `max_text_bytes` bytes, and more than `max_bracket_depth`
/// nested brackets.
/// @errors throws std::invalid_argument with the source, the line and column if
///         known, and the valid range.
json parse_json(std::string_view text, std::string_view source);
inline constexpr std::size_t max_text_bytes = std::size_t{1} << 20;
inline constexpr int max_bracket_depth = 100;

/// Formats a value. An object or a list that contains objects takes several
/// lines. Any other value takes one line.
std::string pretty(const json& x);

/// Formats a value for an error message. Long strings, long lists and objects
/// are shortened.
std::string abbreviated(const json& node);

/// Reads settings from one JSON object, and remembers which keys were read.
class reader : public layer_settings {
public:
  /// @param path path of the object, such as "layers[2]". Empty: the outermost
  ///        object.
  /// @param kind kind of the object in error messages, such as "a dense layer".
  reader(const json& object, std::string source, std::string path,
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

  /// Reads a text that must satisfy `is_name`.
  void name(std::string_view key, std::string& x, bool required);

  /// Reads a list of `min_count` to `max_count` integers.
  void integers(std::string_view key, std::vector<std::int64_t>& x,
                std::size_t min_count, std::size_t max_count);

  /// Checks that every key of the object was read.
  /// @errors throws std::invalid_argument with a key that was not read, and the
  ///         known keys.
  void finish() const;

  /// Returns the path of a key of this object, such as "layers[2].units".
  std::string path_of(std::string_view key) const;

  /// Throws std::invalid_argument with the source, the path of the key, and
  /// `reason`.
  [[noreturn]] void refuse(std::string_view key,
                           const std::string& reason) const;

private:
  const json* find(std::string_view key, bool required,
                   const std::string& wanted);
  /// Says that a key is none of the known ones, and names a similar one.
  std::string unknown_setting(std::string_view key,
                              std::span<const std::string> known) const;
  [[noreturn]] void refuse_value(std::string_view key, const json& x,
                                 const std::string& wanted) const;
  initializer initializer_of(std::string_view key, const json& x) const;
  layer_ptr layer_at(const json& x, const std::string& path) const;

  const json* object_;
  std::string source_;
  std::string path_;
  std::string kind_;
  std::size_t depth_;
  std::vector<std::string> known_;
};

/// Writes settings to one JSON object.
class writer : public layer_settings {
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

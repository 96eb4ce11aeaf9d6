#pragma once

#include <span>
#include <string>
#include <string_view>

// Helpers for names in error messages.

namespace troupe::models::detail {

/// Joins names with commas: "a, b, c".
std::string joined(std::span<const std::string> names);

/// Finds the known name with the fewest edits (insert, delete, replace, swap of
/// neighbors) to `name`. Empty if no name is similar.
std::string nearest(std::string_view name, std::span<const std::string> known);

/// Returns ` did you mean "dense"?`, or an empty string if no name is similar.
std::string guess(std::string_view name, std::span<const std::string> known);

/// Quotes a text, cut at 60 bytes. Bytes outside printable ASCII become `?`.
std::string in_quotes(std::string_view text);

/// True for 1 to 64 letters, digits, `_`, `-` or `.`.
bool is_name(std::string_view text);
inline constexpr std::string_view name_rule =
  "1 to 64 letters, digits, \"_\", \"-\" or \".\"";

} // namespace troupe::models::detail

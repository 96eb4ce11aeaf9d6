#pragma once

#include <span>
#include <string>
#include <string_view>

// Functions that check names and print them in error messages.

namespace troupe::models::detail {

/// Joins names with commas: "a, b, c".
std::string joined(std::span<const std::string> names);

/// Returns the known name into which the fewest edits turn `name`. An edit
/// inserts, deletes or replaces a letter, or swaps two neighbors. Empty: no
/// known name is similar.
std::string nearest(std::string_view name, std::span<const std::string> known);

/// Returns a question such as ` did you mean "dense"?`. Empty: no known name is
/// similar.
std::string guess(std::string_view name, std::span<const std::string> known);

/// Returns the first 60 bytes of a text in quotes. Bytes outside printable
/// ASCII become `?`.
std::string in_quotes(std::string_view text);

/// Returns true for 1 to 64 letters, digits, `_`, `-` or `.`.
bool is_name(std::string_view text);
inline constexpr std::string_view name_rule =
  "1 to 64 letters, digits, \"_\", \"-\" or \".\"";

} // namespace troupe::models::detail

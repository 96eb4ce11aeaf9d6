#pragma once

#include <span>
#include <string>
#include <string_view>

// What error sentences about names are made of.

namespace troupe::models::detail {

/// "a, b, c"
std::string joined(std::span<const std::string> names);

/// The known name with the fewest edits (insert, delete, replace, swap of
/// neighbours) to `name`; empty if none is near enough to be meant.
std::string nearest(std::string_view name, std::span<const std::string> known);

/// ` did you mean "dense"?` or nothing.
std::string guess(std::string_view name, std::span<const std::string> known);

/// In quotes, cut at 60 bytes, control characters and what is not ASCII as `?`.
std::string in_quotes(std::string_view text);

/// Whether it is 1 to 64 letters, digits, `_`, `-`, `.`.
bool is_name(std::string_view text);
inline constexpr std::string_view name_rule =
  "1 to 64 letters, digits, \"_\", \"-\" or \".\"";

} // namespace troupe::models::detail

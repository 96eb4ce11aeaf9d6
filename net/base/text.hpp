#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Makes texts of other processes safe to show. A terminal interprets control
// characters, so a peer's control characters must not reach it.

namespace troupe::net {

/// Maximum size in bytes of a message that may list all replicas of a job.
inline constexpr std::size_t max_sentence_bytes = std::size_t{64} << 10;

/// Returns the text as one line of at most `max_bytes` bytes. `?` replaces each
/// byte of a control character, of a character that changes the text direction,
/// and of invalid UTF-8. A shortened text ends with "...".
std::string printable(std::string_view text, std::size_t max_bytes = 300);

/// Like `printable`, but keeps line breaks and tabs.
std::string printable_lines(std::string_view text,
                            std::size_t max_bytes = max_sentence_bytes);

} // namespace troupe::net

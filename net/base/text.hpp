#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text from other processes that is shown to people. A terminal interprets
// control characters, so those of a peer must not reach it.

namespace troupe::net {

/// Maximum length of a sentence that may list all replicas of a job.
inline constexpr std::size_t max_sentence_bytes = std::size_t{64} << 10;

/// @returns the text with `?` for each byte of a control character, of a
///          character that changes the text direction, or of invalid UTF-8. The
///          result has one line and at most `max_bytes` bytes; "..." marks a
///          cut.
std::string printable(std::string_view text, std::size_t max_bytes = 300);

/// Like `printable`, but keeps line breaks and tabs.
std::string printable_lines(std::string_view text,
                            std::size_t max_bytes = max_sentence_bytes);

} // namespace troupe::net

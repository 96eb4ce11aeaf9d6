#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Texts of other processes are shown to people. A terminal obeys control
// characters, so none of a peer's may reach it.

namespace troupe::net {

/// Of a sentence that may list all replicas of a job.
inline constexpr std::size_t max_sentence_bytes = std::size_t{64} << 10;

/// @returns the text with `?` for each byte of a control character, of a
///          character that changes the direction of others, or of what is not
///          UTF-8. It has one line and at most `most` bytes; "..." stands for
///          what is cut off.
std::string printable(std::string_view text, std::size_t most = 300);

/// As `printable`, but line breaks and tabs stay.
std::string printable_lines(std::string_view text,
                            std::size_t most = max_sentence_bytes);

} // namespace troupe::net

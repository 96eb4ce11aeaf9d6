#include "troupe/net/base/text.hpp"

#include <cstdint>

namespace troupe::net {

namespace {

constexpr std::string_view cut_off = "...";

bool continues(unsigned char c) {
  return (c & 0xc0U) == 0x80;
}

/// True if the code point may be shown. It must not be a control character, a
/// line break, a change of the text direction or a surrogate.
/// @pre the UTF-8 encoding of `point` has at least two bytes.
bool is_harmless(std::uint32_t point) {
  return point >= 0xa0                                            // C1 controls
         && point != 0x061c && point != 0x200e && point != 0x200f // directions
         && !(point >= 0x2028 && point <= 0x202e)  // breaks and directions
         && !(point >= 0x2066 && point <= 0x2069)  // directions
         && !(point >= 0xd800 && point <= 0xdfff); // surrogates
}

/// Returns the size of the first character of the text in bytes. Zero: the
/// character must not be shown, or is not valid UTF-8.
std::size_t shown_size(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80)
    return first >= ' ' && first != 127 ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size)
    return 0;
  auto point = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(byte(i)))
      return 0;
    point = point << 6 | (byte(i) & 0x3fU);
  }
  // smallest code points that need 2, 3 and 4 bytes: UTF-8 forbids to encode a
  // code point in more bytes than it needs
  constexpr std::uint32_t least[]{0x80, 0x800, 0x10000};
  return point >= least[size - 2] && point <= 0x10ffff && is_harmless(point)
           ? size
           : 0;
}

std::string sanitized(std::string_view text, std::size_t max_bytes,
                      bool lines) {
  const auto goes_on = text.size() > max_bytes;
  std::string out;
  while (!text.empty() && out.size() <= max_bytes) {
    const auto kept = lines && (text[0] == '\n' || text[0] == '\t');
    const auto size = kept ? 1 : shown_size(text);
    if (size == 0)
      out += '?';
    else
      out += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  if (!goes_on)
    return out;
  auto end = max_bytes < cut_off.size() ? 0 : max_bytes - cut_off.size();
  while (end > 0 && continues(static_cast<unsigned char>(out[end])))
    --end;
  return out.erase(end).append(cut_off);
}

} // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  return sanitized(text, max_bytes, false);
}

std::string printable_lines(std::string_view text, std::size_t max_bytes) {
  return sanitized(text, max_bytes, true);
}

} // namespace troupe::net

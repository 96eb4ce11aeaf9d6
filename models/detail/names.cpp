#include "troupe/models/detail/names.hpp"

#include <algorithm>
#include <vector>

namespace troupe::models::detail {

namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
         || (c >= '0' && c <= '9');
}

/// Returns the optimal string alignment distance: the smallest number of
/// insertions, deletions, replacements and swaps of neighbors.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(
    a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                          d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

} // namespace

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string nearest(std::string_view name, std::span<const std::string> known) {
  std::string best;
  if (name.size() > 64)
    return best;
  auto fewest = std::max<std::size_t>(1, name.size() * 2 / 5) + 1;
  for (const auto& one : known)
    if (const auto n = edits(name, one); n < fewest) {
      fewest = n;
      best = one;
    }
  return best;
}

std::string guess(std::string_view name, std::span<const std::string> known) {
  const auto meant = nearest(name, known);
  return meant.empty() ? "" : " did you mean \"" + meant + "\"?";
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const auto c : text.substr(0, 60))
    out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > 60 ? "..." : "") + "\"";
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64
         && std::ranges::all_of(text, [](char c) {
              return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.';
            });
}

} // namespace troupe::models::detail

#pragma once

#include <cstddef>
#include <fstream>
#include <iomanip>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::net::testing {

/// Formats bytes as hex digits, such as "01 ff".
inline std::string in_hex(std::span<const std::byte> bytes) {
  std::ostringstream out;
  for (const auto b : bytes)
    out << (out.tellp() > 0 ? " " : "") << std::hex << std::setw(2)
        << std::setfill('0') << std::to_integer<int>(b);
  return out.str();
}

/// Returns the blocks of docs/wire.md that are marked as hex, in the form of
/// `in_hex`.
inline std::vector<std::string> examples() {
  std::ifstream file{TROUPE_SOURCE_DIR "/docs/wire.md"};
  std::vector<std::string> found;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```hex";
      if (inside)
        found.emplace_back();
      continue;
    }
    std::istringstream words{line};
    for (std::string word; inside && words >> word;)
      found.back() += (found.back().empty() ? "" : " ") + word;
  }
  return found;
}

} // namespace troupe::net::testing

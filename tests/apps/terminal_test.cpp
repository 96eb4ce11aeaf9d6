#include "tool.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace troupe;

class Terminal : public tool_test {
protected:
  static constexpr unsigned short columns = 80;

  /// Returns the standard error of a run that a terminal shows.
  std::string shown(const std::string& words) const {
    child_options options;
    options.error_columns = columns;
    const auto done = troupe(words, options);
    EXPECT_EQ(done.code, 0) << done.err;
    return done.err;
  }
};

/// Returns the lines of a terminal: what stands after the last carriage return.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream input{text};
  for (std::string line; std::getline(input, line);) {
    if (line.ends_with('\r')) // the terminal adds it before a line feed
      line.pop_back();
    out.push_back(line.substr(line.rfind('\r') + 1));
  }
  return out;
}

TEST_F(Terminal, ShowsABarAndShortLinesForEachKindOfRun) {
  for (const std::string more :
       {"", "--workers 2", "--workers 2 --servers 1", "--replicas 2"}) {
    SCOPED_TRACE(more);
    const auto text =
      shown("train --data digits:700 --batch 20 --epochs 3 " + more);
    EXPECT_NE(text.find("\repoch 1/3 ["), text.npos) << text;
    const auto lines = lines_of(text);
    std::size_t epochs = 0;
    for (const auto& line : lines) {
      EXPECT_LT(line.size(), columns) << line;
      epochs += line.starts_with("epoch ") && line.find(" val ") != line.npos;
    }
    EXPECT_EQ(epochs, 3u) << text;
    EXPECT_EQ(lines.size(), 3u) << text;
  }
}

} // namespace

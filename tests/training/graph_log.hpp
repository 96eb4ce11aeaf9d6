#pragma once

#include "troupe/actors/core/log.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

/// Keeps the lines about graphs that are logged while the object exists. `fit`
/// logs one if its steps cannot be captured.
class graph_log {
public:
  graph_log() {
    log_from(log_level::info);
    log_to([this](log_level, std::string_view line) {
      if (line.find("graph") != line.npos)
        lines.emplace_back(line);
    });
  }
  ~graph_log() {
    log_to(nullptr);
    log_from(log_level::warning);
  }
  graph_log(const graph_log&) = delete;
  graph_log& operator=(const graph_log&) = delete;

  std::vector<std::string> lines;
};

} // namespace troupe::test

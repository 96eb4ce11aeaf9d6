#pragma once

#include "troupe/actors/core/log.hpp"

#include <string>
#include <string_view>

namespace troupe::test {

/// Collects the warnings during its lifetime.
class collected_warnings {
public:
  collected_warnings() {
    log_to([this](log_level level, std::string_view line) {
      if (level == log_level::warning)
        text += std::string{line} + '\n';
    });
  }
  ~collected_warnings() { log_to({}); }
  collected_warnings(const collected_warnings&) = delete;
  collected_warnings& operator=(const collected_warnings&) = delete;

  bool contain(std::string_view part) const {
    return text.find(part) != text.npos;
  }

  std::string text;
};

} // namespace troupe::test

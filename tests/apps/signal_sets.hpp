#pragma once

#include <fstream>
#include <string>
#include <sys/types.h>

namespace troupe {

/// Returns true if the signal set with this name in /proc/<id>/status contains
/// `number`.
inline bool has_signal(pid_t id, const std::string& set, int number) {
  std::ifstream input{"/proc/" + std::to_string(id) + "/status"};
  for (std::string line; std::getline(input, line);)
    if (line.starts_with(set + ":"))
      return (std::stoull(line.substr(set.size() + 1), nullptr, 16)
                >> (number - 1)
              & 1)
             != 0;
  return false;
}

} // namespace troupe

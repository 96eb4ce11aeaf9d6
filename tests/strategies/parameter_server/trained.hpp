#pragma once

#include "troupe/strategies/parameter_server/messages.hpp"

#include <cstdint>
#include <vector>

namespace troupe::parameter_server {

/// Returns a training of parts with these rules, which have the numbers from 0.
inline training trained(const std::vector<consistency>& rules,
                        std::uint32_t replicas, std::uint64_t number = 0) {
  training out{number, replicas, {}};
  for (const auto& rule : rules)
    out.parts.push_back({out.parts.size(), rule});
  return out;
}

} // namespace troupe::parameter_server

#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace troupe::membership {

/// Returns the tasks to which a reaction sends messages of a kind.
inline std::vector<std::uint32_t> receivers(const reaction& all,
                                            message_kind kind) {
  std::vector<std::uint32_t> out;
  for (const auto& x : all)
    if (const auto* one = std::get_if<send>(&x);
        one && one->message.kind == kind)
      out.push_back(one->task);
  return out;
}

} // namespace troupe::membership

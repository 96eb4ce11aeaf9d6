#pragma once

#include "troupe/actors/core/fault_injector.hpp"

#include <atomic>

namespace troupe::testing {

/// Injects a fault into all messages of one kind in one step.
struct meddler final : fault_seam {
  meddler(subject what, std::uint64_t step, fate to)
    : what{what}, step{step}, to{to} {}
  fate decide(const party&, const party&, subject x, std::uint64_t,
              std::uint64_t at) override {
    if (x != what || at != step)
      return {};
    ++times;
    return to;
  }
  subject what;
  std::uint64_t step;
  fate to;
  std::atomic<int> times = 0;
};

} // namespace troupe::testing

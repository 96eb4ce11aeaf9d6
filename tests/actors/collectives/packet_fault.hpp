#pragma once

#include "troupe/actors/core/fault_injector.hpp"

#include <atomic>

namespace troupe::testing {

/// Injects a fault into all messages of one kind in one step.
struct step_fault_injector final : fault_injector {
  step_fault_injector(message_kind kind, std::uint64_t step,
                      injected_fault fault)
    : kind{kind}, step{step}, fault{fault} {}
  injected_fault on_send(const role_id&, const role_id&, message_kind message,
                         std::uint64_t, std::uint64_t message_step) override {
    if (message != kind || message_step != step)
      return {};
    ++times;
    return fault;
  }
  message_kind kind;
  std::uint64_t step;
  injected_fault fault;
  std::atomic<int> times = 0;
};

} // namespace troupe::testing

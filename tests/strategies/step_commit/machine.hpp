#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <utility>
#include <vector>

namespace troupe::step_commit::testing {

using ids = std::vector<std::uint32_t>;

/// Two processes of two replicas each.
inline const named_processes two{{"chief 0", "worker 1"},
                                 placement::contiguous({2, 2})};

inline named_processes one_process(std::uint32_t replicas) {
  return {{"this process"}, placement{replicas}};
}

/// A state machine whose effects are recorded. Its replicas have incarnation 1,
/// are configured and idle.
struct chief_fixture {
  explicit chief_fixture(const named_processes& processes,
                         std::uint64_t step_window = 4)
    : replicas{processes.placement.replicas()},
      machine{step_window, processes} {
    record(machine.open());
    acknowledge_all();
  }

  void record(reaction&& what) {
    for (auto& x : what)
      effects.push_back(std::move(x));
  }
  void acknowledge(std::uint32_t r) {
    record(machine.on(configured{machine.generation(), r, 1, 0}));
  }
  void acknowledge_all() {
    for (std::uint32_t r = 0; r < replicas; ++r)
      acknowledge(r);
  }
  void report_step(std::uint32_t r, std::uint64_t step) {
    record(machine.on(
      step_done{machine.generation(), step, r, 1, {1, {double(step)}}}));
  }
  /// Lets all replicas report a step, and acknowledges the commit of the step.
  void commit_step(std::uint64_t step) {
    for (std::uint32_t r = 0; r < replicas; ++r)
      report_step(r, step);
    record(machine.acknowledge(step + 1));
  }

  /// Returns the recorded effects of one type.
  template <class T>
  std::vector<T> effects_of() const {
    std::vector<T> out;
    for (const auto& x : effects)
      if (const auto* it = std::get_if<T>(&x))
        out.push_back(*it);
    return out;
  }
  template <class T>
  std::size_t count() const {
    return effects_of<T>().size();
  }
  /// Returns the reason of the last abort; empty if there was none.
  std::string abort_reason() const {
    const auto found = effects_of<aborted>();
    return found.empty() ? "" : found.back().reason;
  }

  std::uint32_t replicas;
  state_machine machine;
  reaction effects;
};

} // namespace troupe::step_commit::testing

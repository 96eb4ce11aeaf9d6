#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace troupe::step_commit::testing {

using ids = std::vector<std::uint32_t>;

/// Two processes of two replicas each.
inline const placement two = placement::contiguous({2, 2});

inline placement one_process(std::uint32_t replicas) {
  return placement{replicas};
}

/// A replica reports that its step function threw.
inline failed thrown(std::uint64_t generation, std::uint32_t replica,
                     const std::string& cause = "broken",
                     std::uint32_t incarnation = 1) {
  return {generation,
          0,
          replica,
          incarnation,
          {.kind = failure_kind::step_failed, .cause = cause}};
}

/// A state machine whose effects are recorded. Its replicas have incarnation 1,
/// are configured and idle.
struct chief_fixture {
  explicit chief_fixture(const placement& processes,
                         std::uint64_t step_window = 4)
    : replicas{processes.replicas()}, machine{step_window, processes} {
    record(machine.open());
    acknowledge_all();
  }

  /// Records effects. Another process must accept the report of an abort.
  void record(reaction&& what) {
    for (auto& x : what) {
      if (const auto* abort = std::get_if<aborted>(&x)) {
        EXPECT_TRUE(is_possible(abort->report, replicas, replicas));
      }
      effects.push_back(std::move(x));
    }
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
  /// Returns the report of the last abort; an empty one if there was none.
  failure_report abort_report() const {
    const auto found = effects_of<aborted>();
    return found.empty() ? failure_report{} : found.back().report;
  }

  std::uint32_t replicas;
  state_machine machine;
  reaction effects;
};

} // namespace troupe::step_commit::testing

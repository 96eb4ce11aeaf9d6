#pragma once

#include "troupe/actors/core/fault_injector.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>

// Actors of replicas that end.

namespace troupe::test {

using step_set = std::set<std::uint64_t>;

/// A replica throws outside of the step function, when it first reports each of
/// some steps.
class failing_reports final : public fault_injector {
public:
  failing_reports(std::uint32_t replica, step_set steps)
    : replica_{replica}, steps_{std::move(steps)} {}

  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    if (kind != message_kind::step_done || sender != replica_id(replica_))
      return {};
    const std::lock_guard hold{lock_};
    if (steps_.erase(step) == 0)
      return {};
    ++ends;
    throw std::runtime_error{"the disk is full"};
  }

  std::atomic<int> ends = 0; ///< Of the actor.

private:
  const std::uint32_t replica_;
  std::mutex lock_;
  step_set steps_; ///< Not reported yet.
};

} // namespace troupe::test

#pragma once

#include "troupe/actors/group/completion_queue.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace troupe {

/// Through which replicas enter a function that a caller lends them. Whoever
/// lent it closes the gate before its frame goes away.
class step_gate {
public:
  /// @param tell hears when somebody leaves after the gate was closed.
  step_gate(std::uint32_t replicas, std::shared_ptr<work_desk> tell);

  /// Being inside; on the replica's fiber or thread.
  class pass {
  public:
    /// @errors throws failure if the gate is closed.
    pass(step_gate& of, std::uint32_t replica);
    ~pass();
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;

  private:
    step_gate& of_;
    std::uint32_t replica_;
  };

  /// Nobody enters from here on. Waits until nobody is inside.
  /// @returns the replicas that did not leave within the patience, ascending.
  std::vector<std::uint32_t> close(std::chrono::milliseconds patience);

private:
  std::vector<std::uint32_t> inside() const;
  void leave(std::uint32_t replica);

  // Sequentially consistent: either the one who enters sees the gate closed, or
  // the one who closes it sees somebody inside.
  std::atomic<bool> closed_ = false;
  std::vector<std::atomic<bool>> inside_;
  std::shared_ptr<work_desk> tell_;
};

} // namespace troupe

#pragma once

#include "troupe/actors/group/completion_queue.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace troupe {

/// Guards calls into a function object that the caller of `run` or `for_each`
/// owns. If `run` or `for_each` fails, it closes the gate before it throws;
/// afterwards no replica can enter the function.
class step_gate {
public:
  /// @param completions is notified when a replica leaves after the gate was
  ///                    closed.
  step_gate(std::uint32_t replicas,
            std::shared_ptr<completion_queue> completions);

  /// Marks a replica as inside the function while this object exists. Used on
  /// the replica's fiber or thread.
  class holder {
  public:
    /// @errors throws `run_ended` if the gate is closed.
    holder(step_gate& gate, std::uint32_t replica);
    ~holder();
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;

  private:
    step_gate& gate_;
    std::uint32_t replica_;
  };

  /// Blocks new entries and waits until no replica is inside.
  /// @returns the ids of the replicas that did not leave within the timeout,
  ///          ascending.
  std::vector<std::uint32_t> close(std::chrono::milliseconds timeout);

private:
  std::vector<std::uint32_t> inside() const;
  void leave(std::uint32_t replica);

  // All accesses to `closed_` and `inside_` are sequentially consistent. So an
  // entering replica sees that the gate is closed, or the closing thread sees
  // that the replica is inside.
  std::atomic<bool> closed_ = false;
  std::vector<std::atomic<bool>> inside_;
  std::shared_ptr<completion_queue> completions_;
};

} // namespace troupe

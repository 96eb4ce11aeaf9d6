#pragma once

#include "troupe/actors/core/wait_strategy.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/protocol/atoms.hpp"

#include <deque>
#include <optional>
#include <set>

namespace troupe {

/// Queue through which the roles of a group notify the thread that called it,
/// which is no actor. A caller begins one run or task at a time.
class work_desk final : public work_listener {
public:
  explicit work_desk(std::shared_ptr<waiter> by) : waiter_{std::move(by)} {}

  // -- the caller -------------------------------------------------------------

  /// Begins a run.
  /// @returns the run's number; numbers count from 1.
  /// @errors throws std::logic_error if a run or a task is active, `job_error`
  ///         if the group has terminated.
  std::uint64_t begin();

  /// Waits for the end of the run and calls `on_commit` for each commit. Its
  /// second argument is true if another commit is in the queue already.
  /// @returns the first step that was not run; nullopt if no notification
  ///          arrived within the timeout.
  /// @errors throws `job_error` as `replica_group::run` does.
  std::optional<std::uint64_t>
  follow(const std::function<void(const commit_record&, bool)>& on_commit,
         std::chrono::milliseconds patience);

  /// Begins a task that each of these replicas runs once.
  /// @returns the task's number; numbers count from 1.
  /// @errors throws std::logic_error if a run or a task is active.
  std::uint64_t begin_visits(const crew::share& whom);
  /// Waits until all replicas have run the task.
  /// @errors throws `job_error` that names a replica.
  void follow_visits(std::chrono::milliseconds patience);

  /// Number of the active run, or nullopt. It may be called from any thread.
  std::optional<std::uint64_t> running();

  /// True if the group has terminated: it can run no more steps.
  bool chief_ended();

  /// Waits until `done` holds. It is checked again after each notification.
  /// @returns true if it held within the timeout.
  bool await(const std::function<bool()>& done,
             std::chrono::milliseconds patience);

  /// Waits until `roles` roles have terminated.
  /// @returns true if they terminated within the timeout.
  bool await_ends(std::size_t roles, std::chrono::milliseconds patience);

  // -- the roles --------------------------------------------------------------

  void committed(std::uint64_t run, commit_record&& x) override;
  void ended(std::uint64_t run, std::uint64_t next) override;
  void given_up(std::uint64_t run, ec code, std::string&& why) override;
  void no_more(ec code, const std::string& why) override;
  void visited(std::uint64_t visit, std::uint32_t replica,
               std::string&& problem) override;
  /// A role has terminated.
  /// @param chief true for the chief or the local agent.
  void one_ended(bool chief);
  /// Makes waiting threads check their conditions again.
  void nudge();

private:
  /// Applies `change` under the lock and wakes the caller.
  template <class F>
  void note(F&& change);

  std::shared_ptr<waiter> waiter_;
  std::mutex lock_;
  std::deque<commit_record> commits_;
  /// The first step that was not run; set at the end of the run.
  std::optional<std::uint64_t> next_;
  std::optional<failure> failure_; ///< Error that ended the run.
  bool running_ = false;
  std::optional<failure> gone_; ///< Why the group has terminated.
  std::uint64_t run_ = 0;       ///< Number of the last run.
  bool visiting_ = false;
  std::uint64_t visit_ = 0;           ///< Number of the last task.
  std::set<std::uint32_t> unvisited_; ///< Replicas that have not run the task.
  std::string problem_;               ///< First error of the task. Empty: none.
  std::size_t ended_ = 0;             ///< Number of roles that have terminated.
};

} // namespace troupe

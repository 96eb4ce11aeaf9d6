#pragma once

#include "troupe/actors/core/wait_strategy.hpp"
#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/protocol/atoms.hpp"

#include <deque>
#include <optional>
#include <set>

namespace troupe {

/// Where a crew's caller, who is no actor, hears from its roles.
class work_desk final : public work_listener {
public:
  explicit work_desk(std::shared_ptr<waiter> by) : waiter_{std::move(by)} {}

  // -- the caller -------------------------------------------------------------

  /// @returns the run's number.
  /// @errors throws std::logic_error if work runs already; `failure` if nothing
  ///         can come of it any more.
  std::uint64_t begin();

  /// Calls `on_commit` for each commit, until the work ends, and says whether
  /// there are more to come at once.
  /// @returns the first step that was not run; nothing if nothing was heard for
  ///          the patience.
  /// @errors throws `failure` as `crew::run` does.
  std::optional<std::uint64_t>
  follow(const std::function<void(const commit_record&, bool)>& on_commit,
         std::chrono::milliseconds patience);

  /// @returns the visit's number.
  /// @errors throws std::logic_error while another visit or work is under way.
  std::uint64_t begin_visits(const crew::share& whom);
  /// @errors throws `failure` that names a replica.
  void follow_visits(std::chrono::milliseconds patience);

  /// The number of the run under way, if one is; from any thread.
  std::optional<std::uint64_t> running();

  bool chief_ended();

  /// Waits until `done`, which somebody's `nudge` may have made true.
  /// @returns whether it came to hold within the patience.
  bool await(const std::function<bool()>& done,
             std::chrono::milliseconds patience);

  /// @returns whether so many roles ended in time.
  bool await_ends(std::size_t roles, std::chrono::milliseconds patience);

  // -- the roles --------------------------------------------------------------

  void committed(std::uint64_t run, commit_record&& x) override;
  void ended(std::uint64_t run, std::uint64_t next) override;
  void given_up(std::uint64_t run, ec code, std::string&& why) override;
  void no_more(ec code, const std::string& why) override;
  void visited(std::uint64_t visit, std::uint32_t replica,
               std::string&& problem) override;
  void one_ended(bool chief);
  void nudge();

private:
  template <class F>
  void note(F&& change);

  std::shared_ptr<waiter> waiter_;
  std::mutex lock_;
  std::deque<commit_record> commits_;
  std::optional<std::uint64_t> next_;
  std::optional<failure> failure_;
  bool running_ = false;
  std::optional<failure> gone_; ///< Why nothing more will come.
  std::uint64_t run_ = 0;       ///< Number of the last one.
  bool visiting_ = false;
  std::uint64_t visit_ = 0;
  std::set<std::uint32_t> unvisited_;
  std::string problem_;
  std::size_t ended_ = 0;
};

} // namespace troupe

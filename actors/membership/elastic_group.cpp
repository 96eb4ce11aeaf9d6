#include "troupe/actors/membership/elastic_group.hpp"

#include "troupe/actors/core/job_error.hpp"

#include <algorithm>
#include <optional>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// Time in which a view change must begin after a run has failed. The loss of a
/// process is known to the others within the timeout of the heartbeats.
constexpr auto no_change_timeout = 3s;

class elastic_group final : public replica_group {
public:
  elastic_group(const elastic_group_options& options,
                const membership::view& first)
    : options_{options} {
    group_ = options_.make_group(first);
    placement_ = group_->replica_placement();
    view_id_ = first.view_id;
    options_.peers->update([this] {
      auto& stop = options_.peers->stop;
      stop.has_group = true;
      stop.end_run = group_->run_terminator();
    });
  }

  ~elastic_group() override {
    options_.peers->update([this] {
      auto& stop = options_.peers->stop;
      stop.has_group = false;
      stop.end_run = {};
    });
  }

  const local_placement& replica_placement() const override {
    return placement_;
  }
  std::uint64_t max_steps_ahead() const override {
    return group().max_steps_ahead();
  }
  std::uint64_t run(const run_request& request) override {
    return group().run(request);
  }
  void stop() override {
    if (group_)
      group_->stop();
  }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    group().for_each(fn);
  }

  bool enter_next_view(const view_change::job_position& position) override {
    if (!group_)
      return false;
    group_.reset();
    options_.peers->update([&] {
      auto& stop = options_.peers->stop;
      stop.end_run = {};
      stop.position = position;
    });
    options_.on_stopped();
    const auto deadline = peer_table::clock::now() + options_.timeout;
    while (const auto next = wait_for_view(deadline))
      if (enter(*next))
        return true;
    return false;
  }

private:
  replica_group& group() const {
    if (!group_)
      throw job_error(ec::peer_lost,
                      "this process could not enter a view of its job after "
                      "the loss of another process");
    return *group_;
  }

  /// Waits for a view that follows the last one and that is not being changed
  /// itself.
  /// @returns nullopt: there is none.
  /// @errors throws `job_error` if this process is excluded.
  std::optional<membership::view>
  wait_for_view(peer_table::clock::time_point deadline) {
    auto& peers = *options_.peers;
    std::unique_lock hold{peers.lock};
    const auto is_next = [&] {
      return peers.view.view_id > view_id_ && !peers.stop.requested;
    };
    const auto has_ended = [&] { return peers.excluded || peers.no_next_view; };
    const auto begun_by =
      std::min(deadline, peer_table::clock::now() + no_change_timeout);
    peers.wait(hold, begun_by, [&] {
      return peers.stop.requested || is_next() || has_ended();
    });
    if (peers.stop.requested)
      peers.wait(hold, deadline, [&] { return is_next() || has_ended(); });
    if (peers.excluded)
      throw job_error(ec::unreachable,
                      "the other processes of the job could not reach this one "
                      "and go on without it, from view "
                        + std::to_string(peers.view.view_id) + " on");
    return is_next() ? std::optional{peers.view} : std::nullopt;
  }

  /// Makes the group of a view.
  /// @returns false if the view is no longer the current one.
  /// @errors throws `job_error` if the lanes of the view cannot be opened.
  bool enter(const membership::view& next) {
    auto& peers = *options_.peers;
    view_id_ = next.view_id;
    std::unique_ptr<replica_group> made;
    try {
      made = options_.make_group(next);
    } catch (const job_error&) {
      // The connection to a process that is lost ends before or after its
      // lanes.
      std::unique_lock hold{peers.lock};
      if (peers.wait(hold, peer_table::clock::now() + no_change_timeout, [&] {
            return peers.stop.requested || peers.view.view_id != next.view_id;
          }))
        return false;
      throw;
    }
    const bool is_current = peers.get([&] {
      if (peers.stop.requested || peers.view.view_id != next.view_id)
        return false;
      peers.stop.position.reset();
      peers.stop.end_run = made->run_terminator();
      return true;
    });
    if (!is_current)
      return false;
    group_ = std::move(made);
    placement_ = group_->replica_placement();
    return true;
  }

  const elastic_group_options options_;
  /// Group of the current view. Null: this process has no view to run in.
  std::unique_ptr<replica_group> group_;
  local_placement placement_;
  std::uint64_t view_id_ = 0; ///< Last view that this group has tried to enter.
};

} // namespace

std::unique_ptr<replica_group>
make_elastic_group(const elastic_group_options& options,
                   const membership::view& first) {
  return std::make_unique<elastic_group>(options, first);
}

} // namespace troupe

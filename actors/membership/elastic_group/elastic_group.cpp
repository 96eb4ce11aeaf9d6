#include "troupe/actors/membership/elastic_group/elastic_group.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/group/job_status_source.hpp"
#include "troupe/actors/group/recovering_group.hpp"
#include "troupe/actors/group/respawn_limit.hpp"
#include "troupe/actors/membership/elastic_group/lane_failure.hpp"
#include "troupe/actors/membership/elastic_group/renewal_limit.hpp"
#include "troupe/actors/membership/elastic_group/unopened_lanes.hpp"
#include "troupe/tensors/base/device_error.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// Time after which the members are asked for results again.
constexpr auto request_interval = 200ms;

/// Time in which a process that was deferred must be admitted. It asks all
/// members again every 100 ms.
constexpr auto admission_timeout = 5s;

/// Number of views in a row that are renewed because this process lacks
/// something for itself. It leaves in the next one.
constexpr int max_own_failures = 3;

/// Asks the group of the current view.
class status_source_of_view final : public job_status_source {
public:
  explicit status_source_of_view(std::shared_ptr<peer_table> peers)
    : peers_{std::move(peers)} {}

  job_status status(std::chrono::milliseconds timeout) override {
    const auto current =
      peers_->get([this] { return peers_->stop.status_source; });
    return current ? current->status(timeout) : job_status{};
  }

private:
  const std::shared_ptr<peer_table> peers_;
};

constexpr const char* not_joined =
  "this process has not joined its job yet; a program that joins makes the "
  "calls fit, evaluate, save and strategy.loop";

class elastic_group final : public replica_group, public recovering_group {
public:
  elastic_group(const elastic_group_options& options,
                const membership::view& first)
    : options_{options},
      unopened_{first, incarnation(), options.joins},
      joins_{options.joins} {
    if (joins_) {
      placement_ = placement_outside(first);
    } else {
      group_ = options_.make_group(first);
      placement_ = group_->replica_placement();
      names_ = names_in(*group_);
    }
    view_id_ = entered_view_id_ = first.view_id;
    members_ = incarnations_of(first);
    options_.peers->update([this] {
      auto& stop = options_.peers->stop;
      stop.has_group = true;
      stop.stopped = joins_;
      if (group_) {
        stop.end_run = group_->run_terminator();
        stop.status_source = group_->status_source();
      }
    });
  }

  ~elastic_group() override {
    options_.peers->update([this] {
      auto& stop = options_.peers->stop;
      stop.has_group = false;
      stop.end_run = {};
      stop.is_to_stop = {};
      stop.on_requested = {};
      stop.status_source = {};
    });
  }

  const local_placement& replica_placement() const override {
    return placement_;
  }
  std::string process_name(std::uint32_t process) const override {
    if (process == placement_.process)
      return options_.name;
    return process < names_.size() ? names_[process]
                                   : replica_group::process_name(process);
  }
  std::uint64_t max_steps_ahead() const override {
    return joins_ ? default_step_window : group().max_steps_ahead();
  }
  std::uint64_t run(const run_request& request) override {
    own_end_.clear();
    if (joins_ && !given_up_) // it does not make the calls of the job
      given_up_ = job_error{ec::peer_lost, not_joined};
    try {
      return group().run(request);
    } catch (const job_error& e) {
      last_failure_ = e.what();
      if (is_end_of_own_role(e.report()))
        own_end_ = e.what();
      throw;
    }
  }
  void stop() override {
    if (group_)
      group_->stop();
  }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    group().for_each(fn);
  }

  bool enter_next_view(const std::optional<view_change::job_position>& position,
                       std::chrono::milliseconds timeout) override {
    timeout = std::max(timeout, options_.timeout);
    if (joins_) {
      throw_if_given_up();
      join(peer_table::clock::now() + timeout);
    } else if (!group_) {
      return false;
    } else {
      limit_respawns(position);
      end_group(position);
      want_renewal();
    }
    return enter_a_view(timeout);
  }

  std::shared_ptr<job_status_source> status_source() const override {
    return status_source_;
  }

  std::uint64_t incarnation() const override {
    return options_.peers->get(
      [this] { return options_.peers->own_incarnation; });
  }

  std::vector<std::uint64_t> members() const override { return members_; }

  std::uint64_t view_id() const override { return entered_view_id_; }

  leave_result let_leave(const std::vector<std::uint64_t>& leavers,
                         const view_change::job_position& position,
                         std::chrono::milliseconds timeout) override {
    const auto is_member = [&](std::uint64_t incarnation) {
      return std::ranges::find(options_.peers->view.members, incarnation,
                               &membership::member::incarnation)
             != options_.peers->view.members.end();
    };
    const bool leaves = options_.peers->get(
      [&] { return std::ranges::any_of(leavers, is_member); });
    if (joins_ || !leaves)
      return leave_result::unchanged;
    const auto view_id = view_id_;
    end_group(position);
    options_.on_leaving(view_id, leavers);
    // A process that leaves says so at once, or is lost.
    timeout = std::max(timeout, options_.timeout);
    if (enter_a_view(timeout))
      return leave_result::entered;
    if (has_left() && is_excluded())
      return leave_result::left;
    throw job_error(ec::peer_lost,
                    "this process could not enter a view of its job after "
                    "another process has left it");
  }

  void leave_at_once() override {
    if (given_up_)
      return;
    given_up_ = job_error{ec::peer_lost, "this process has left its job"};
    joins_ = false;
    // First, so that this process takes no part in the view change.
    options_.on_giving_up();
    end_group({});
  }

  bool is_view_change_pending() override {
    if (joins_ || !group_)
      return false;
    return options_.peers->get([this] {
      const auto& peers = *options_.peers;
      return peers.stop.requested || peers.view.view_id > view_id_;
    });
  }

  void set_view_change_listener(std::function<void()> listener) override {
    options_.peers->update(
      [&] { options_.peers->stop.on_requested = std::move(listener); });
  }

  std::function<void(const failure_report&)> run_terminator() override {
    return [peers = options_.peers](const failure_report& why) {
      peers->end_runs(why);
    };
  }

  std::function<bool()>
  set_stop_request(std::function<bool()> is_to_stop) override {
    options_.peers->update(
      [&] { std::swap(options_.peers->stop.is_to_stop, is_to_stop); });
    return is_to_stop;
  }
  void set_recovering(bool recovers) override {
    options_.peers->update([&] { options_.peers->stop.recovers = recovers; });
  }

  bool is_joining() const override { return joins_; }

  void record_result(std::uint64_t call, const std::string& result) override {
    options_.peers->update([&] {
      auto& log = options_.peers->log;
      if (call < log.results.size())
        return; // a member has told it
      log.bytes += result.size();
      if (log.bytes > log.max_bytes && log.rejection.empty()) {
        log.rejection = "the results of its calls take more than "
                        + std::to_string(log.max_bytes >> 20) + " MiB";
        log.results = {};
      }
      if (log.rejection.empty())
        log.results.push_back(result);
    });
  }

  /// The members have a log of the results. What they answer is appended to the
  /// log of this process.
  std::optional<std::string> result_of(std::uint64_t call) override {
    auto& peers = *options_.peers;
    const auto deadline = peer_table::clock::now() + options_.timeout;
    std::unique_lock hold{peers.lock};
    const auto is_known = [&] { return call < peers.log.results.size(); };
    const auto before = peers.log.answers;
    const auto is_answered = [&] {
      return is_known() || peers.log.answers > before || peers.failed
             || peers.stop.end_of_runs;
    };
    while (!is_answered() && peer_table::clock::now() < deadline) {
      hold.unlock();
      options_.request_results(call);
      hold.lock();
      peers.wait(hold, peer_table::clock::now() + request_interval,
                 is_answered);
    }
    if (is_known())
      return peers.log.results[call];
    if (peers.failed)
      throw cannot_join(peers.failed->cause);
    throw_if_ended(hold);
    if (!is_answered())
      throw job_error(ec::stalled, "the processes of the job do not tell the "
                                   "results of its calls");
    return {};
  }

  void reject_candidates(const std::string& reason) override {
    options_.peers->update([&] {
      auto& log = options_.peers->log;
      if (log.rejection.empty())
        log.rejection = reason;
      log.results = {};
    });
  }

  void defer_candidates(bool deferred) override {
    options_.peers->update([&] { options_.peers->deferral.active = deferred; });
  }

  bool has_deferred_candidate() override {
    const std::lock_guard hold{options_.peers->lock};
    return is_awaited();
  }

  bool await_deferred_candidate(std::chrono::milliseconds timeout) override {
    auto& peers = *options_.peers;
    std::unique_lock hold{peers.lock};
    peers.wait(hold, peer_table::clock::now() + timeout,
               [&] { return peers.stop.requested || is_awaited(); });
    return is_awaited();
  }

  void admit_candidates(std::chrono::milliseconds timeout) override {
    auto& peers = *options_.peers;
    const auto now = peer_table::clock::now();
    peers.update([&] {
      peers.deferral.active = false;
      for (auto& [incarnation, limit] : peers.deferral.waiting)
        if (!limit)
          limit = now + admission_timeout;
    });
    std::unique_lock hold{peers.lock};
    peers.wait(hold, now + timeout,
               [&] { return peers.stop.requested || !is_awaited(); });
  }

  bool has_left() const override {
    return options_.peers->get([this] { return options_.peers->has_left; });
  }

  bool is_excluded() const override {
    return given_up_.has_value()
           || options_.peers->get([this] { return options_.peers->excluded; });
  }

  bool belongs_to_job() const override { return group_ && !is_excluded(); }
  bool may_have_last_state() const override {
    return lacks_something_
           && !options_.peers->get([this] { return options_.peers->excluded; });
  }

private:
  /// True if a process that was deferred is not admitted yet, and is within its
  /// time limit. @pre the lock of the table is held.
  bool is_awaited() {
    auto& peers = *options_.peers;
    const auto now = peer_table::clock::now();
    std::erase_if(peers.deferral.waiting, [&](const auto& x) {
      return std::ranges::find(peers.view.members, x.first,
                               &membership::member::incarnation)
             != peers.view.members.end();
    });
    return std::ranges::any_of(peers.deferral.waiting, [&](const auto& x) {
      return !x.second || now < *x.second;
    });
  }

  /// Ends the replicas of this process for a view change.
  void end_group(const std::optional<view_change::job_position>& position) {
    group_.reset();
    options_.peers->update([&] {
      auto& stop = options_.peers->stop;
      stop.end_run = {};
      stop.status_source = {};
      stop.stopped = true;
      stop.position = position;
    });
    record_event(options_.peers->recorder,
                 {.kind = flight_event_kind::replicas_stopped});
    options_.on_stopped();
  }

  static std::vector<std::uint64_t>
  incarnations_of(const membership::view& of) {
    std::vector<std::uint64_t> out;
    for (const auto& x : of.members)
      out.push_back(x.incarnation);
    return out;
  }

  static std::vector<std::string> names_in(const replica_group& group) {
    std::vector<std::string> out;
    for (std::uint32_t p = 0; p < group.replica_placement().job.processes();
         ++p)
      out.push_back(group.process_name(p));
    return out;
  }

  /// Placement of a process that does not belong to the view: the members are
  /// followed by this process, which hosts no replica.
  static local_placement placement_outside(const membership::view& of) {
    std::vector<placement::id_list> ids;
    for (const auto& x : of.members)
      ids.push_back(x.replicas);
    ids.emplace_back();
    return {placement{ids}, static_cast<std::uint32_t>(of.members.size())};
  }

  /// Waits until this process belongs to a view.
  /// @errors throws `job_error` if it is not admitted by the deadline.
  void join(peer_table::clock::time_point deadline) {
    options_.on_ask();
    auto& peers = *options_.peers;
    std::unique_lock hold{peers.lock};
    const auto is_member = [&] {
      const auto* const self = peers.view.find(options_.task);
      return self && self->incarnation == peers.own_incarnation;
    };
    peers.wait(hold, deadline, [&] {
      return is_member() || peers.failed || peers.no_next_view
             || peers.stop.end_of_runs;
    });
    if (!is_member())
      throw_if_ended(hold);
    if (!is_member())
      throw cannot_join(peers.failed ? peers.failed->cause
                                     : std::string{"it has ended, or does not "
                                                   "stop its replicas in "
                                                   "time"});
    joins_ = false;
  }

  /// Throws if all runs of this process end. @pre the lock of the table is
  /// held.
  void throw_if_ended(const std::unique_lock<std::mutex>&) const {
    if (const auto& why = options_.peers->stop.end_of_runs)
      throw job_error{*why, why->cause};
  }

  static job_error cannot_join(const std::string& cause) {
    return {ec::peer_lost,
            "this process could not join the running job: " + cause};
  }

  void throw_if_given_up() const {
    if (given_up_)
      throw *given_up_;
  }

  replica_group& group() const {
    throw_if_given_up();
    if (!group_ && joins_)
      throw job_error(ec::peer_lost, not_joined);
    if (!group_ && has_left() && is_excluded())
      throw job_error(ec::cancelled,
                      "this process has left its job, and takes part in no "
                      "further calls");
    if (!group_)
      throw job_error(ec::peer_lost,
                      "this process could not enter a view of its job after "
                      "the loss of another process");
    return *group_;
  }

  bool is_end_of_own_role(const failure_report& report) const {
    switch (report.kind) {
      case failure_kind::replica_lost:
      case failure_kind::replica_missing:
        return !report.replicas.empty()
               && placement_.job.process_of(report.replicas.front())
                    == placement_.process;
      default:
        return false;
    }
  }

  /// Counts the end of the actor of a replica of this process, if the last run
  /// has failed for that reason.
  /// @errors throws `job_error` if that is once too often. This process has
  ///         left its job then.
  void
  limit_respawns(const std::optional<view_change::job_position>& position) {
    if (own_end_.empty()
        || respawns_.on_end(peer_table::clock::now().time_since_epoch(),
                            position, std::exchange(own_end_, {})))
      return;
    give_up(respawns_.describe());
    end_group(position);
    throw *given_up_;
  }

  /// From now on this process takes no part in its job, which goes on without
  /// it. Called before `end_group`, so that it takes no part in the view
  /// change.
  void give_up(const std::string& why) {
    given_up_ =
      job_error{ec::unreachable, why + "; so this process has left its job"};
    options_.on_giving_up();
  }

  /// Lets the members renew the current view, unless it changes anyway.
  /// @returns false if it changes anyway.
  /// @errors throws `job_error` if they have renewed it too often.
  bool want_renewal() {
    const bool changes = options_.peers->get([this] {
      return options_.peers->stop.requested
             || options_.peers->view.view_id != view_id_;
    });
    if (changes)
      return false;
    const auto at =
      options_.peers->get([this] { return options_.peers->stop.position; });
    if (!limit_.on_renewal(now(), view_id_,
                           at.value_or(view_change::job_position{}),
                           last_failure_))
      throw job_error(ec::unreachable,
                      "the processes of the job have renewed their view too "
                      "often without a step in between: "
                        + limit_.describe());
    options_.on_renewal_wanted(view_id_);
    return true;
  }

  static std::chrono::milliseconds now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
      peer_table::clock::now().time_since_epoch());
  }

  /// The lanes of a view could not be opened. Reports the members to which that
  /// has happened again and again.
  /// @errors throws `job_error` if this process leaves, because it has joined
  ///         later than one of them.
  void on_lanes_failed(const membership::view& of, const lane_failure& why) {
    for (const auto& x : unopened_.on_failure(now(), of, why.tasks)) {
      if (x.is_older && of.find(x.task)->capacity > 0) {
        give_up("this process has joined the job, and cannot open its lanes "
                "to a process that was there before: "
                + std::string{why.what()});
        throw *given_up_;
      }
      options_.on_no_lanes(of.view_id, x.incarnation, x.is_newer);
    }
  }

  /// A view could not be entered, so it is renewed, unless it changes anyway
  /// because a process is lost.
  /// @errors throws `job_error` as `want_renewal`.
  void on_not_entered(const membership::view& next, const std::string& why) {
    last_failure_ = why;
    if (want_renewal())
      log(log_level::warning, "view " + std::to_string(next.view_id)
                                + " of the job could not be entered, so its "
                                  "processes renew it: "
                                + last_failure_);
  }

  /// A view could not be entered, because this process lacks something for
  /// itself, such as a descriptor. If the processes of a host share the cause,
  /// all of them fail in the same view, so the view is renewed first.
  /// @errors throws `job_error` as `want_renewal`, and if this process leaves,
  ///         because it has failed too often in a row. The only process of a
  ///         view does not leave.
  void on_own_failure(const membership::view& of, const std::string& what) {
    const auto text =
      "view " + std::to_string(of.view_id) + " cannot be entered: " + what;
    if (++own_failures_ <= max_own_failures)
      return on_not_entered(of, what);
    if (of.members.size() == 1)
      throw job_error(ec::unreachable, text);
    lacks_something_ = true;
    give_up(text);
    throw *given_up_;
  }

  /// Enters the next view in which this process can make its group.
  /// @param timeout longest wait for each view. The limit of renewals bounds
  ///                their number.
  /// @returns false: there is none, or this process has left.
  bool enter_a_view(std::chrono::milliseconds timeout) {
    while (const auto next = wait_for_view(peer_table::clock::now() + timeout))
      if (enter(*next))
        return true;
    return false;
  }

  /// Waits for a view that follows the last one and that is not being changed
  /// itself.
  /// @returns nullopt: there is none, or this process has left.
  /// @errors throws `job_error` if this process is excluded, or if all of its
  ///         runs end.
  std::optional<membership::view>
  wait_for_view(peer_table::clock::time_point deadline) {
    auto& peers = *options_.peers;
    std::unique_lock hold{peers.lock};
    const auto is_next = [&] {
      return peers.view.view_id > view_id_ && !peers.stop.requested;
    };
    const auto has_ended = [&] {
      return peers.excluded || peers.no_next_view || peers.stop.end_of_runs;
    };
    peers.wait(hold, deadline, [&] { return is_next() || has_ended(); });
    if (peers.excluded && peers.has_left)
      return {};
    if (peers.excluded)
      throw job_error(ec::unreachable,
                      "the other processes of the job could not reach this one "
                      "and go on without it, from view "
                        + std::to_string(peers.view.view_id) + " on");
    if (!is_next())
      throw_if_ended(hold);
    return is_next() ? std::optional{peers.view} : std::nullopt;
  }

  /// Makes the group of a view.
  /// @returns false if the view is no longer the current one, or its lanes
  ///          cannot be opened.
  /// @errors throws `job_error` as `want_renewal`, and if this process leaves.
  ///         Passes `std::logic_error` and `device_lost` through.
  bool enter(const membership::view& next) {
    auto& peers = *options_.peers;
    view_id_ = next.view_id;
    std::unique_ptr<replica_group> made;
    try {
      made = options_.make_group(next);
    } catch (const lane_failure& e) {
      on_lanes_failed(next, e);
      on_not_entered(next, e.what());
      return false;
    } catch (const job_error& e) {
      on_not_entered(next, e.what());
      return false;
    } catch (const std::logic_error&) {
      throw; // a bug
    } catch (const device_lost&) {
      throw; // the caller leaves
    } catch (const std::exception& e) {
      on_own_failure(next, e.what());
      return false;
    }
    std::optional<failure_report> end_of_runs;
    const bool is_current = peers.get([&] {
      if (peers.stop.requested || peers.view.view_id != next.view_id)
        return false;
      peers.stop.stopped = false;
      peers.stop.position.reset();
      peers.stop.end_run = made->run_terminator();
      peers.stop.status_source = made->status_source();
      end_of_runs = peers.stop.end_of_runs;
      return true;
    });
    record_event(peers.recorder, {.kind = flight_event_kind::lanes_opened,
                                  .view = next.view_id});
    if (!is_current)
      return false;
    if (end_of_runs)
      made->run_terminator()(*end_of_runs);
    group_ = std::move(made);
    placement_ = group_->replica_placement();
    names_ = names_in(*group_);
    members_ = incarnations_of(next);
    entered_view_id_ = next.view_id;
    unopened_.on_entered(next);
    own_failures_ = 0;
    return true;
  }

  const elastic_group_options options_;
  const std::shared_ptr<job_status_source> status_source_ =
    std::make_shared<status_source_of_view>(options_.peers);
  /// Group of the current view. Null: this process has no view to run in.
  std::unique_ptr<replica_group> group_;
  local_placement placement_;
  /// Names of the processes of `placement_`. Empty: this process has not
  /// entered a view.
  std::vector<std::string> names_;
  /// Incarnations of the members of the last view that was entered.
  std::vector<std::uint64_t> members_;
  renewal_limit limit_;
  unopened_lanes unopened_;
  respawn_limit respawns_;
  /// Why the last run has failed, if the actor of a replica of this process had
  /// ended. Else empty.
  std::string own_end_;
  /// Why this process has left its job, or never joins it. None: it has not,
  /// and may.
  std::optional<job_error> given_up_;
  int own_failures_ = 0; ///< Views in a row that `on_own_failure` is about.
  bool lacks_something_ = false; ///< This process has left for this reason.
  std::string last_failure_;  ///< Failure of a run, or of the lanes of a view.
  bool joins_;                ///< This process does not belong to a view yet.
  std::uint64_t view_id_ = 0; ///< Last view that this group has tried to enter.
  std::uint64_t entered_view_id_ = 0; ///< Last view that it has entered.
};

} // namespace

std::unique_ptr<replica_group>
make_elastic_group(const elastic_group_options& options,
                   const membership::view& first) {
  return std::make_unique<elastic_group>(options, first);
}

} // namespace troupe

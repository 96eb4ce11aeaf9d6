#include "troupe/actors/membership/actor/membership_actor.hpp"

#include "troupe/actors/core/close_code.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/actors/membership/peers/membership_internal_actor.hpp"
#include "troupe/actors/membership/peers/packet_reporter.hpp"
#include "troupe/actors/membership/peers/reconnector.hpp"
#include "troupe/actors/membership/peers/rejection_text.hpp"
#include "troupe/actors/membership/view_changes/view_change_host.hpp"
#include "troupe/actors/membership/view_changes/view_change_text.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/strategies/membership/candidate.hpp"
#include "troupe/strategies/membership/leader.hpp"
#include "troupe/strategies/membership/participant.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Delay before a participant dials a process again. It dials again if that
/// process does not serve the job yet.
constexpr auto retry_delay = 20ms;
/// Delay before a candidate dials a process again, and interval in which it
/// asks to join.
constexpr auto candidate_interval = 100ms;
/// Time after which a candidate gives up that has lost all its connections.
constexpr auto candidate_reconnect_time = 1000ms;
constexpr milliseconds candidate_dial_timeout{2000};
/// Maximum time in which a process that asks to join must answer a member that
/// opens lanes to it.
constexpr milliseconds candidate_answer_timeout{2000};
/// Maximum number of addresses of candidates about which a warning is logged.
constexpr std::size_t max_warned_candidates = 64;
/// Maximum delay before the leader logs which tasks are missing.
constexpr milliseconds max_report_delay{5000};
/// Time before a participant reports that the connection to another one has
/// ended before the start.
constexpr auto peer_loss_delay = 500ms;
/// Time after which a run that goes on is ended for a view change. Before that,
/// the loss of a process usually ends it, with an error that also names the
/// step and the replicas that wait. This error can take a second if a replica
/// does not answer. If a process leaves, the run usually ends by itself before
/// that.
constexpr auto end_of_run_delay = 300ms;
/// Interval and number of the checks whether a process of this host has ended,
/// after the connection to it has ended.
constexpr auto end_check_interval = 10ms;
constexpr std::uint32_t end_checks = 500;
/// Number of the first of these checks that follow each other sooner.
constexpr std::uint32_t early_checks = 20;
constexpr auto early_check_interval = 1ms;
/// Number of the first of these checks during which no lack of a majority is
/// reported.
constexpr std::uint32_t decisive_checks = 50;
/// Time in which the launcher ends a process that does not answer.
constexpr auto launcher_timeout = 3s;
/// Time in which it answers a question. It needs less, unless it is stopped.
constexpr auto answer_timeout = 15s;
/// Interval in which its answer is looked for.
constexpr auto answer_interval = 5ms;
/// Time beyond the start timeout in which the processes have to open their
/// lanes.
constexpr auto lane_timeout = 5s;

/// Passes what arrives on a channel to the actor.
class channel_listener final : public net::channel_listener {
public:
  channel_listener(const membership_internal_actor& owner, std::uint32_t task,
                   std::uint64_t connection, std::uint32_t channel)
    : owner_{owner.address()},
      task_{task},
      connection_{connection},
      channel_{channel} {}

  void on_frame(net::frame&& frame) override {
    tell(membership_event::received{
      task_, connection_, channel_,
      std::make_shared<net::frame>(std::move(frame))});
  }
  /// The channels of a connection end together.
  void on_closed(net::close_reason cause, const std::string& reason) override {
    if (channel_ == membership_channel)
      tell(membership_event::closed{task_, connection_, cause, reason});
  }

private:
  template <class Event>
  void tell(Event&& event) {
    if (const auto owner = caf::actor_cast<membership_internal_actor>(owner_))
      caf::anon_send(owner, std::forward<Event>(event));
  }

  caf::actor_addr owner_; ///< Weak: the actor owns the channel.
  std::uint32_t task_;
  std::uint64_t connection_;
  std::uint32_t channel_;
};

/// Keeps the result of a dial until an actor has handled it. If the actor has
/// ended before that, the connection is closed, because the endpoint would keep
/// it open.
std::shared_ptr<net::endpoint::dial_result>
keep(net::endpoint::dial_result&& result) {
  const auto close_unused = [](net::endpoint::dial_result* x) {
    const std::unique_ptr<net::endpoint::dial_result> owned{x};
    if (!owned->connection)
      return;
    const auto* const unused =
      std::get_if<std::shared_ptr<net::connection>>(&*owned->connection);
    if (unused && *unused)
      (*unused)->close("the process does not need it any more");
  };
  return {new net::endpoint::dial_result{std::move(result)}, close_unused};
}

// -- state --------------------------------------------------------------------

struct membership_state : view_change_host::owner, reconnector::owner {
  static inline const char* name = "membership";
  using pointer = membership_internal_actor::stateful_pointer<membership_state>;

  /// The connection to another process.
  struct peer {
    std::shared_ptr<net::connection> connection;
    std::shared_ptr<net::channel> membership, view_change, results,
      packet_reports;
    std::uint64_t incarnation = 0;
    std::uint64_t number = 0; ///< Number of the connection.
    /// Null: the process is not on this host.
    std::shared_ptr<const net::process_handle> process;
    std::uint64_t last_tag = 0; ///< Number of the last message sent.
    /// What the process asked for when it connected to a running job. None: it
    /// belongs to the first view.
    std::optional<membership::join_request> request{};
    packet_reporter reporter{};
  };

  membership_state() = default;
  membership_state(const membership_state&) = delete;
  membership_state& operator=(const membership_state&) = delete;
  ~membership_state() override { close_all("the job has ended"); }

  // -- events -----------------------------------------------------------------

  void start() {
    if (options.dial_again)
      reconnects.emplace(*this, options);
    options.peers->update(
      [this] { options.peers->own_incarnation = options.self.incarnation; });
    if (options.joins) {
      candidate.emplace(task_count(), options.self);
      arm_watchdog(options.start_timeout);
      if (options.log)
        log_later();
      if (has_rivals())
        dial(options.known_view.members.front().task);
      else
        dial_all();
    } else if (options.self.task == 0) {
      leader.emplace(task_count(), options.self);
      arm_watchdog(options.start_timeout);
      log_later();
      perform(leader->begin());
    } else {
      participant.emplace(task_count(), options.self);
      arm_watchdog(options.start_timeout + lane_timeout);
      dial(0);
    }
  }

  void on(const membership_event::accepted& x) {
    if (options.joins)
      return x.connection->close("the job has begun");
    if (participant)
      return accept_peer(x);
    auto effects = leader->on(x.request);
    if (auto* no = std::get_if<membership::rejected>(&effects.front()))
      return reject(*x.connection, no->why);
    add_peer(x.request.task, x.request.incarnation, x.connection);
    perform(std::move(effects));
  }

  void on(const membership_event::dialed& x) {
    if (options.joins)
      return on_member_dialed(x.task, *x.result);
    if (x.task > 0)
      return on_peer_dialed(x.task, *x.result);
    auto& attempt = *x.result;
    if (attempt.connection)
      if (auto* wire = std::get_if<std::shared_ptr<net::connection>>(
            &*attempt.connection)) {
        add_peer(0, attempt.peer.incarnation, std::move(*wire));
        arm_watchdog(remaining() + options.start_timeout
                     + options.shutdown_timeout);
        return perform(participant->on_connected(attempt.peer.incarnation));
      }
    const bool retry = attempt.rejected && is_retryable(attempt.payload)
                       && remaining() > retry_delay;
    if (attempt.rejected)
      last_rejection = attempt.reason;
    if (retry)
      self->delayed_send(self, retry_delay, atom::next_v, std::uint32_t{0});
    else if (!last_rejection.empty()) // explains more than a timeout
      perform(participant->on_rejected(last_rejection));
    else
      perform(participant->on_unreachable(
        attempt.permanent ? ec::refused : ec::stalled, attempt.reason));
  }

  void on(const membership_event::received& x) {
    auto* const sender = find_connection(x.task, x.connection);
    if (!sender)
      return;
    if (x.channel == view_change_channel)
      return on_view_change(*sender, x.task, *x.frame);
    if (x.channel == result_channel)
      return on_results(x.task, *sender, *x.frame);
    if (x.channel == packet_report_channel)
      return on_packet_report(x.task, *sender, *x.frame);
    sender->membership->consumed(x.frame->priority);
    membership::message message;
    if (const auto fault = net::decode(x.frame->payload, message.kind,
                                       message.text, message.view))
      return sender->connection->close("a membership message is malformed: "
                                       + to_string(*fault));
    message.text = net::printable(message.text, net::max_sentence_bytes);
    const auto incarnation = sender->incarnation;
    if (message.kind == membership::message_kind::join)
      return on_join(*sender, x.task);
    if (candidate) {
      refusals.erase(x.task);
      perform(candidate->on(x.task, message));
      if (has_rivals() && candidate->view().view_id > 0
          && !std::exchange(is_first_accepted, true))
        dial_all();
      return;
    }
    perform(leader ? leader->on(x.task, incarnation, message)
                   : participant->on(incarnation, message));
  }

  void on(const membership_event::closed& x) {
    const auto* const lost = find_connection(x.task, x.connection);
    if (!lost)
      return;
    const auto incarnation = lost->incarnation;
    const bool was_closed = lost->connection->ended_by_close();
    const auto process = lost->process;
    const auto request = lost->request;
    // One that is silent for the heartbeat timeout is not dialed again.
    const bool was_cut = !was_closed && x.cause != net::close_reason::timed_out
                         && is_member(x.task, incarnation);
    options.peers->update([&] {
      options.peers->entries[x.task].closed = {x.cause, x.reason};
      options.peers->deferral.waiting.erase(incarnation);
    });
    note_lost(x.task, x.cause, x.reason);
    if (options.peers->view.contains(x.task, incarnation))
      causes_of_loss[incarnation] = x.reason;
    peers.erase(x.task);
    note_answer(x.task);
    const auto code = close_code(x.cause);
    if (candidate)
      return on_lost_by_candidate(x.task, x.reason, was_closed);
    if (process) {
      // Before the members change their view, which asks for both. A process
      // that was silent for the heartbeat timeout is not ending.
      lost_processes[incarnation] = process;
      if (code != ec::unreachable)
        ending.insert(incarnation);
    }
    if (was_cut && reconnects && !(process && process->has_ended()))
      reconnects->on_cut({x.task, incarnation},
                         {code, x.reason, {}, process, request});
    else
      on_connection_lost({x.task, incarnation},
                         {code, x.reason, {}, process, request},
                         x.cause == net::close_reason::timed_out);
    if (process)
      check_end(
        {incarnation, process,
         code == ec::unreachable ? end_checks - decisive_checks : end_checks,
         x.task});
    // The leader may say more: that the process has ended, or why the job does
    // not begin.
    if (participant && x.task > 0 && !has_started)
      self->delayed_send(self, peer_loss_delay,
                         membership_event::peer_lost{x.task, code, x.reason});
  }

  /// The connection to a process has ended for good.
  /// @param was_silent true: nothing was received for the heartbeat timeout.
  void on_connection_lost(const view_change::process_id& process,
                          const reconnector::cut_connection& how,
                          bool was_silent = false) {
    const auto& [task, incarnation] = process;
    // A connection that was cut has been dialed for the heartbeat timeout.
    if (was_silent && is_member(task, incarnation))
      silent_members.insert_or_assign(incarnation, how);
    perform(leader ? leader->on_lost(task, incarnation, how.code, how.reason)
                   : participant->on_lost(incarnation, how.code, how.reason));
    view_changes.on_lost(incarnation, was_silent);
  }

  /// The connection to a process of this host has ended. The kernel closes it
  /// shortly before the process has ended.
  void check_end(const membership_event::end_check& x) {
    if (!lost_processes.contains(x.incarnation))
      return; // they are connected again
    const bool has_ended = x.process->has_ended();
    if (has_ended || x.further_checks + decisive_checks <= end_checks)
      ending.erase(x.incarnation);
    else
      ending.insert(x.incarnation);
    if (has_ended) {
      note_dead(x.incarnation);
      lost_processes.erase(x.incarnation);
      const view_change::process_id process{x.task, x.incarnation};
      const auto cut = reconnects ? reconnects->stop(process) : std::nullopt;
      if (cut)
        on_connection_lost(process, *cut);
      silent_members.erase(x.incarnation);
      view_changes.on_dead(x.incarnation);
    }
    const bool is_early = x.further_checks + early_checks > end_checks;
    if (!has_ended && x.further_checks > 0)
      self->delayed_send(
        self, is_early ? early_check_interval : end_check_interval,
        membership_event::end_check{x.incarnation, x.process,
                                    x.further_checks - 1, x.task});
  }
  void on(const membership_event::end_check& x) { check_end(x); }

  void on(const membership_event::peer_lost& x) {
    if (!has_started && !peers.contains(x.task))
      abort(x.code, "the connection between " + own_name() + " and "
                      + options.processes.names[x.task]
                      + " ended: " + x.reason);
  }

  void on(const membership_event::lanes_open&) {
    if (participant)
      arm_watchdog(std::max(remaining(), options.start_timeout / 2)
                   + options.start_timeout + lane_timeout);
    lanes_open = true;
    report_if_ready();
  }

  /// This process is ready when its lanes are open and it is connected to all
  /// others.
  void report_if_ready() {
    if (lanes_open && !options.joins && peers.size() + 1 == task_count())
      perform(leader ? leader->on_ready() : participant->on_ready());
  }

  void on(const membership_event::aborted& x) { abort(x.code, x.reason); }

  void abort(ec code, const std::string& reason) {
    if (candidate)
      return; // `elastic_group` throws
    perform(leader ? leader->on_abort(code, reason)
                   : participant->on_abort(code, reason));
  }

  void on(const membership_event::replicas_stopped&) {
    const bool is_awaited = options.peers->get([this] {
      const auto& stop = options.peers->stop;
      return stop.requested && stop.stopped;
    });
    if (is_awaited)
      view_changes.on_stopped();
  }

  void on(const membership_event::stop_overdue& x) {
    const auto end_run = options.peers->get([&] {
      const auto& stop = options.peers->stop;
      return stop.requested && !stop.stopped
                 && options.peers->view.view_id == x.view_id
               ? stop.end_run
               : std::function<void(const failure_report&)>{};
    });
    if (end_run)
      end_run({.code = ec::peer_lost, .cause = reason_of_view_change()});
  }

  std::string reason_of_view_change() const {
    std::map<std::uint32_t, std::string> losses;
    for (const auto& x : options.peers->view.members) {
      const auto lost = causes_of_loss.find(x.incarnation);
      if (lost == causes_of_loss.end())
        continue;
      const auto peer = peers.find(x.task);
      const bool is_connected =
        peer != peers.end() && peer->second.incarnation == x.incarnation;
      losses[x.task] = (is_connected || is_awaited(x.task, x.incarnation)
                          ? "was disconnected: "
                          : "was lost: ")
                       + lost->second;
    }
    return describe(view_changes.reasons(), losses, options.self.task,
                    options.processes.names);
  }

  void on(const membership_event::renewal_wanted& x) {
    const bool is_current = options.peers->get(
      [&] { return options.peers->view.view_id == x.view_id; });
    if (is_current)
      view_changes.on_renewal_wanted();
  }

  void on(const membership_event::no_lanes& x) {
    const bool is_current = options.peers->get(
      [&] { return options.peers->view.view_id == x.view_id; });
    if (is_current)
      view_changes.on_no_lanes(x.incarnation, x.is_newer);
  }

  void on(const membership_event::undecided& x) {
    const bool is_awaited = options.peers->get([&] {
      return options.peers->stop.requested
             && options.peers->view.view_id == x.view_id;
    });
    if (is_awaited)
      give_up_if_silent(x.silent_tasks);
  }

  void give_up_if_silent(const std::vector<std::uint32_t>& tasks) {
    if (are_silent(tasks))
      give_up(tasks);
    else
      view_changes.await_majority();
  }

  /// True if there is no connection to the members with these tasks.
  bool are_silent(const std::vector<std::uint32_t>& tasks) {
    return std::ranges::none_of(tasks, [this](std::uint32_t task) {
      const auto* const member = options.peers->view.find(task);
      return member && find(task, member->incarnation);
    });
  }

  void on(const membership_event::leaving& x) {
    const bool is_current = options.peers->get(
      [&] { return options.peers->view.view_id == x.view_id; });
    if (is_current)
      for (const auto incarnation : x.incarnations)
        view_changes.on_leaving(incarnation);
  }

  void on(const membership_event::leave& x) {
    view_changes.end();
    options.peers->update([this] { options.peers->no_next_view = true; });
    // The job goes on without a leader that has left it before.
    const bool has_left = x.job_goes_on || options.peers->get([this] {
      return options.peers->has_left;
    });
    perform(candidate ? candidate->leave()
            : leader
              ? (has_left ? leader->leave_running_job() : leader->leave())
              : participant->leave());
  }

  void on_watchdog(std::uint64_t number) {
    if (number == watchdog && candidate)
      perform(candidate->on_timeout(last_rejection, refusal()));
    else if (number == watchdog)
      perform(leader ? leader->on_timeout() : participant->on_timeout());
  }

  void dial(std::uint32_t task) {
    auto on_done = [owner = membership_internal_actor{self},
                    task](net::endpoint::dial_result&& x) {
      caf::anon_send(owner, membership_event::dialed{task, keep(std::move(x))});
    };
    if (options.joins) {
      if (!candidate || peers.contains(task))
        return;
      return dial_to_join(task, std::move(on_done));
    }
    if (task == 0)
      return options.dial_leader(std::max(remaining(), 1ms),
                                 std::move(on_done));
    try {
      options.dial_peer(participant->view().members[task],
                        std::max(remaining(), options.start_timeout / 2),
                        std::move(on_done));
    } catch (const std::invalid_argument& e) { // the leader sent the address
      abort(ec::protocol, "the address of " + options.processes.names[task]
                            + " cannot be used: " + e.what());
    }
  }

  // -- candidates -------------------------------------------------------------

  /// Other candidates may ask for the task of this one.
  bool has_rivals() const { return options.known_view.view_id > 0; }

  void dial_all() {
    for (std::uint32_t task = 0; task < task_count(); ++task)
      if (task != options.self.task)
        dial(task);
  }

  /// Dials a process alternately at its address in the last view and at the
  /// address of its task in the cluster. A process that was a spare has another
  /// address than its task.
  void dial_to_join(std::uint32_t task,
                    membership_options::dial_callback on_done) {
    const auto& view =
      candidate->view().view_id > 0 ? candidate->view() : options.known_view;
    const auto* member = view.find(task);
    if (member && !dialed_by_view.insert(task).second) {
      dialed_by_view.erase(task);
      member = nullptr;
    }
    try {
      options.dial_to_join(task, member, candidate_dial_timeout,
                           std::move(on_done));
    } catch (const std::invalid_argument& e) { // a member sent the address
      last_rejection = options.processes.names[task] + ": " + e.what();
      dial_later(task);
    }
  }

  /// The candidate has not become a process of the job, so another one may.
  void give_way() {
    options.peers->update([&] {
      options.peers->failed = {.code = ec::busy, .cause = last_rejection};
    });
  }

  /// Candidate: connects to all processes of the job. Those that it does not
  /// reach may have ended.
  void on_member_dialed(std::uint32_t task,
                        net::endpoint::dial_result& attempt) {
    auto* const connection =
      attempt.connection
        ? std::get_if<std::shared_ptr<net::connection>>(&*attempt.connection)
        : nullptr;
    if (connection && candidate && !peers.contains(task)) {
      add_peer(task, attempt.peer.incarnation, std::move(*connection));
      candidate->on_connected(task, attempt.peer.incarnation);
      return;
    }
    if (connection)
      return (*connection)->close("the process has joined");
    last_rejection = options.processes.names[task] + ": " + attempt.reason;
    if (attempt.rejected && !is_retryable(attempt.payload))
      note_refusal(task);
    if (has_rivals() && candidate && !is_first_accepted)
      give_way();
    else
      dial_later(task);
  }

  /// A process of the job does not accept this candidate. A later attempt that
  /// does not reach the process says less.
  void note_refusal(std::uint32_t task) {
    if (refusals.insert_or_assign(task, last_rejection).second)
      log(own_name() + " cannot join yet: " + last_rejection);
  }

  void dial_later(std::uint32_t task) {
    if (candidate)
      self->delayed_send(self, candidate_interval, atom::next_v, task);
  }

  void on_lost_by_candidate(std::uint32_t task, const std::string& reason,
                            bool was_closed) {
    last_rejection = options.processes.names[task] + ": " + reason;
    if (was_closed)
      note_refusal(task);
    candidate->on_lost(task);
    if (has_rivals() && !candidate->knows_job())
      return give_way();
    if (peers.empty() && candidate->knows_job()
        && !std::exchange(awaits_connections, true))
      self->delayed_send(self, candidate_reconnect_time,
                         membership_event::connections_overdue{});
    dial_later(task);
  }

  /// A process that dials again may reach the job: its connections were cut.
  void on(const membership_event::connections_overdue&) {
    awaits_connections = false;
    if (!candidate || !peers.empty() || !candidate->knows_job())
      return;
    options.peers->update([&] {
      options.peers->failed = {
        .code = ec::peer_lost,
        .cause = "the connections to all its processes have ended, the last to "
                 + last_rejection};
    });
  }

  void on(const membership_event::ask_to_join&) {
    if (candidate) {
      note({.kind = flight_event_kind::view_change_begun,
            .text = "this process asks to join"});
      perform(candidate->ask());
      self->delayed_send(self, candidate_interval, atom::next_v);
    }
  }

  void repeat_ask() {
    if (!candidate)
      return;
    perform(candidate->repeat());
    self->delayed_send(self, candidate_interval, atom::next_v);
  }

  /// A member accepts a candidate if no other process has its task, and if it
  /// has the configuration of the job.
  void on(const membership_event::candidate_accepted& x) {
    const auto& [connection, request] = x;
    const auto task = request.task;
    if (task >= task_count() || task == options.self.task)
      return connection->close("the job has no such task to take");
    if (!has_started || candidate || peers.contains(task)
        || (reconnects && reconnects->awaits_task(task)))
      return connection->close( // it tries again
        is_taken_elsewhere(request) ? describe(
          membership::rejection{
            membership::rejection::kind::taken, task, {}, {}},
          options.processes.names)
                                    : "the process cannot join at present");
    const auto rejection =
      options.peers->get([this] { return options.peers->log.rejection; });
    if (!rejection.empty())
      return reject_candidate(*connection,
                              "no process can join this job: " + rejection);
    if (const auto why =
          membership::difference(task, request.config, options.self.config))
      return reject_candidate(*connection,
                              describe(*why, options.processes.names));
    if (request.host.empty() || request.port == 0 || request.replicas == 0
        || request.replicas > max_replicas)
      return reject_candidate(*connection, "its request is malformed");
    if (task > options.self.task || !options.dial_again)
      return admit(x);
    if (!dialed_candidates.try_emplace(task, x).second)
      return connection->close("the process cannot join at present");
    dial_candidate(request);
  }

  /// From here on the candidate can join, so the launcher must know of it. A
  /// candidate that this process cannot reach is not reported. After a report
  /// of a process that the launcher has not started, it is no witness any more.
  void admit(const membership_event::candidate_accepted& x) {
    const auto task = x.request.task;
    const auto& hello = x.connection->peer();
    if (options.launcher
        && !options.launcher->report_candidate(watch(hello)
                                                 ? read_process_identity(hello)
                                                 : net::process_identity{}))
      return x.connection->close("the process cannot join at present");
    add_peer(task, x.request.incarnation, x.connection);
    peers.at(task).request = x.request;
    send_view(task);
  }

  /// A process opens its lanes to those with a lower task. If this one cannot
  /// reach the candidate, no view with it could be entered, so the candidate
  /// must answer before it learns the job.
  void dial_candidate(const membership::join_request& candidate) {
    const view_change::process_id process{candidate.task,
                                          candidate.incarnation};
    try {
      options.dial_again({candidate.task,
                          candidate.incarnation,
                          candidate.host,
                          candidate.port,
                          {},
                          0},
                         candidate_answer_timeout,
                         [owner = membership_internal_actor{self},
                          process](net::endpoint::dial_result&& result) {
                           caf::anon_send(owner,
                                          membership_event::candidate_dialed{
                                            process, keep(std::move(result))});
                         });
    } catch (const std::invalid_argument& e) { // the candidate sent the address
      auto result = std::make_shared<net::endpoint::dial_result>();
      result->reason = e.what();
      self->send(
        self, membership_event::candidate_dialed{process, std::move(result)});
    }
  }

  void on(const membership_event::candidate_dialed& x) {
    const auto found = dialed_candidates.find(x.process.task);
    if (found == dialed_candidates.end()
        || found->second.request.incarnation != x.process.incarnation)
      return;
    const auto candidate = std::move(found->second);
    dialed_candidates.erase(found);
    const auto& attempt = *x.result;
    // It rejects the hello of a member whose connection it has not lost.
    const bool has_answered =
      (attempt.connection || attempt.rejected)
      && attempt.peer.incarnation == x.process.incarnation;
    if (!has_answered) {
      const auto& request = candidate.request;
      const auto reason = net::printable(
        own_name() + " cannot connect to "
          + options.processes.names[request.task] + " at "
          + to_string(net::address{request.host, request.port}) + ": "
          + (attempt.reason.empty() ? "another process answers"
                                    : attempt.reason),
        net::max_sentence_bytes);
      if (options.log && unreachable_candidates.size() < max_warned_candidates
          && unreachable_candidates.insert({request.host, request.port}).second)
        options.log(net::severity::warning,
                    reason + "; the process cannot join");
      return candidate.connection->close(reason);
    }
    if (peers.contains(x.process.task)
        || (reconnects && reconnects->awaits_task(x.process.task)))
      return candidate.connection->close("the process cannot join at present");
    admit(candidate);
  }

  /// True if the task has a connected process in the view, at another address
  /// than the request. Such a process is a spare, or a predecessor whose loss
  /// this process has not noticed yet. A process at the same address is the
  /// predecessor of the one that asks, and may be ending.
  bool is_taken_elsewhere(const membership::join_request& request) const {
    const auto peer = peers.find(request.task);
    if (!has_started || candidate || peer == peers.end())
      return false;
    return options.peers->get([&] {
      const auto* const holder = options.peers->view.find(request.task);
      return holder && holder->incarnation == peer->second.incarnation
             && std::tie(holder->host, holder->port)
                  != std::tie(request.host, request.port);
    });
  }

  void reject_candidate(net::connection& connection, const std::string& text) {
    reject_candidate(connection, *connection.open(membership_channel), 1, text);
  }
  /// @param tag number of the message on the channel.
  void reject_candidate(net::connection& connection, net::channel& control,
                        std::uint64_t tag, const std::string& text) {
    const auto reason = net::printable(text, net::max_sentence_bytes);
    post(control, tag, {membership::message_kind::reject, reason, {}});
    connection.close(reason);
    log(own_name() + " rejected a process that asked to join: " + reason);
  }

  void on_join(const peer& sender, std::uint32_t task) {
    if (!sender.request)
      return; // a member of the first view
    const auto& request = *sender.request;
    bool is_deferred = false;
    options.peers->update([&] {
      auto& deferral = options.peers->deferral;
      is_deferred = deferral.active;
      if (is_deferred)
        deferral.waiting.try_emplace(request.incarnation);
    });
    if (is_deferred)
      return; // it asks again
    view_changes.on_join({task,
                          request.incarnation,
                          request.host,
                          request.port,
                          {},
                          request.replicas});
  }

  /// The candidate belongs to a view.
  void join(const view_change::numbered_proposal& decision) {
    const auto& next = decision.proposal.next;
    participant.emplace(task_count(), options.self, next, candidate->leader());
    candidate.reset();
    ++watchdog;
    view_changes.begin(decision, options.self.incarnation);
    on_installed(next);
  }

  void on(const membership_event::request_results& x) {
    // Some of them may have joined, too, and not know the results yet.
    const membership::call_results question{true, x.call, {}};
    requested_call = x.call;
    unanswered.clear();
    for (auto& [task, one] : peers)
      if (one.results->post({net::frame_kind::oneway, net::priority::control, 0,
                             ++one.last_tag, net::encode(question)}))
        unanswered.insert(task);
      else
        one.connection->close("a request of results could not be sent");
  }

  /// A process has answered the last request of results, or is lost.
  void note_answer(std::uint32_t task) {
    if (unanswered.erase(task) > 0 && unanswered.empty())
      options.peers->update([&] { ++options.peers->log.answers; });
  }

  /// A member answers with the results that fit into a message. A process that
  /// joins appends the answer to its log.
  void on_results(std::uint32_t task, peer& sender, const net::frame& frame) {
    sender.results->consumed(frame.priority);
    membership::call_results message;
    if (const auto fault = net::decode(frame.payload, message))
      return sender.connection->close("a message about results is malformed: "
                                      + to_string(*fault));
    const auto limit =
      sender.results->limits().max_payload(net::priority::control);
    if (message.is_question)
      return answer(sender, message.first, limit);
    // A member answers each request once.
    if (message.first != requested_call || !unanswered.contains(task))
      return;
    const bool is_too_large = options.peers->get([&] {
      const auto& log = options.peers->log;
      auto bytes = log.bytes;
      auto call = message.first;
      for (const auto& x : message.results)
        if (call++ >= log.results.size()) // else another member has told it
          bytes += x.size();
      return bytes > peer_table::result_log::max_bytes;
    });
    if (is_too_large)
      return sender.connection->close(
        "the results of calls take more than "
        + std::to_string(peer_table::result_log::max_bytes >> 20) + " MiB");
    options.peers->update([&] {
      auto& log = options.peers->log;
      auto call = message.first;
      for (auto& x : message.results)
        if (call++ == log.results.size()) {
          log.bytes += x.size();
          log.results.push_back(std::move(x));
        }
    });
    note_answer(task);
  }

  void answer(peer& asker, std::uint64_t first, std::size_t limit) {
    constexpr std::size_t overhead = 64; // of a result, and of the message
    membership::call_results out{false, first, {}};
    auto rejection = options.peers->get([&] {
      const auto& log = options.peers->log;
      auto bytes = 2 * overhead;
      for (auto i = first; i < log.results.size(); ++i) {
        bytes += log.results[i].size() + overhead;
        if (bytes > limit)
          return out.results.empty()
                   ? std::string{"the result of a call is too large"}
                   : log.rejection;
        out.results.push_back(log.results[i]);
      }
      return log.rejection;
    });
    if (!rejection.empty() && asker.request)
      return reject_candidate(*asker.connection, *asker.membership,
                              ++asker.last_tag,
                              "no process can join this job: " + rejection);
    if (!asker.results->post({net::frame_kind::oneway, net::priority::control,
                              0, ++asker.last_tag, net::encode(out)}))
      asker.connection->close("results could not be sent");
  }

  // -- connections that are made again ----------------------------------------

  bool is_member(std::uint32_t task, std::uint64_t incarnation) const {
    return has_started && options.peers->get([&] {
      const auto& peers = *options.peers;
      return !peers.excluded && !peers.entries[task].has_left
             && peers.view.contains(task, incarnation);
    });
  }
  bool is_awaited(std::uint32_t task, std::uint64_t incarnation) const {
    return reconnects && reconnects->awaits({task, incarnation});
  }

  void on(const membership_event::dial_again& x) { reconnects->on(x); }
  void on(const membership_event::dialed_again& x) { reconnects->on(x); }
  void on(const membership_event::not_reconnected& x) { reconnects->on(x); }

  /// The other process has dialed. This one may not know yet that the earlier
  /// connection was cut.
  void on(const membership_event::accepted_again& x) {
    const auto& [task, incarnation] = x.process;
    const auto& name = options.processes.names[task];
    if (candidate || !has_started)
      return x.connection->close("the job has not begun in this process");
    if (options.peers->get([this] { return options.peers->excluded; }))
      return x.connection->close(own_name() + " does not belong to the job");
    if (!is_member(task, incarnation))
      return refuse_former_member(x);
    auto before = reconnects->stop(x.process);
    if (const auto* const open = find(task, incarnation); open && !before)
      before = {ec::peer_lost, {}, {}, open->process, open->request};
    // It was silent, and dials because too few processes answer it.
    if (const auto lost = silent_members.find(incarnation);
        lost != silent_members.end() && !before)
      before = lost->second;
    if (!before)
      return x.connection->close(own_name() + " has given up the connection to "
                                 + name);
    on_reconnected(x.process, x.connection, *before);
  }

  /// Tells a process that it is not a member of the current view, so that it
  /// ends its runs.
  void refuse_former_member(const membership_event::accepted_again& x) {
    const auto& [task, incarnation] = x.process;
    if (!peers.contains(task)) {
      add_peer(task, incarnation, x.connection);
      view_change::message inquiry;
      inquiry.kind = view_change::message_kind::inquire;
      view_changes.on(x.process, inquiry); // answered with `install`
    }
    x.connection->close(
      options.processes.names[task] + " is not a member of view "
      + std::to_string(options.peers->view.view_id) + " of the job");
  }

  void on_reconnected(const view_change::process_id& process,
                      std::shared_ptr<net::connection> connection,
                      const reconnector::cut_connection& before) override {
    const auto& [task, incarnation] = process;
    lost_processes.erase(incarnation);
    silent_members.erase(incarnation);
    dialed_members.erase(incarnation);
    ending.erase(incarnation);
    add_peer(task, incarnation, std::move(connection));
    auto& made = peers.at(task);
    made.request = before.request;
    if (before.process)
      made.process = before.process;
    log(own_name() + " is connected to " + options.processes.names[task]
        + " again" + (before.reason.empty() ? "" : ": " + before.reason));
    perform(leader ? leader->on_reconnected(task)
                   : participant->on_reconnected(task, incarnation));
    // It may be lost again before the members have agreed on a view.
    view_changes.await_majority();
    view_changes.on_reachable(incarnation);
  }

  void on_not_reconnected(const view_change::process_id& process,
                          const reconnector::cut_connection& before) override {
    log(own_name() + " could not connect to "
        + options.processes.names[process.task] + " again"
        + (before.dial_failure.empty() ? "" : ": " + before.dial_failure));
    if (dialed_members.contains(process.incarnation))
      view_changes.await_majority(); // which is reported once more
    else
      on_connection_lost(process, before);
  }

  /// Dials members that were silent once more: those that were stopped may
  /// answer again.
  /// @returns false if each of them was dialed once more, or has ended.
  bool dial_silent_members(const std::vector<std::uint32_t>& tasks) {
    bool is_any_dialed = false;
    for (const auto task : tasks) {
      const auto* const member = options.peers->view.find(task);
      const auto lost = member ? silent_members.find(member->incarnation)
                               : silent_members.end();
      if (!reconnects || lost == silent_members.end()
          || options.peers->entries[task].has_left
          || view_changes.is_dead(member->incarnation)
          || !dialed_members.insert(member->incarnation).second)
        continue;
      reconnects->dial({task, member->incarnation}, lost->second);
      is_any_dialed = true;
    }
    return is_any_dialed;
  }

  void pass_later(milliseconds delay,
                  const membership_event::dial_again& event) override {
    tell_later(delay, event);
  }
  void pass_later(milliseconds delay,
                  const membership_event::not_reconnected& event) override {
    tell_later(delay, event);
  }
  template <class Event>
  void tell_later(milliseconds delay, const Event& event) {
    if (delay > 0ms)
      self->delayed_send(self, delay, event);
    else
      self->send(self, event);
  }
  membership_options::dial_callback
  dial_callback(const view_change::process_id& process) override {
    return [owner = membership_internal_actor{self},
            process](net::endpoint::dial_result&& x) {
      caf::anon_send(
        owner, membership_event::dialed_again{process, keep(std::move(x))});
    };
  }
  milliseconds time() const override {
    return std::chrono::duration_cast<milliseconds>(now());
  }

  // -- connections between participants ---------------------------------------

  /// Each participant dials those with a lower task.
  void dial_peers() {
    peer_deadline = now() + std::max(remaining(), options.start_timeout / 2);
    for (std::uint32_t task = 1; task < options.self.task; ++task)
      dial(task);
    for (const auto& x : std::exchange(early_peers, {}))
      accept_peer(x);
  }

  void on_peer_dialed(std::uint32_t task, net::endpoint::dial_result& attempt) {
    const auto& name = options.processes.names[task];
    auto* const connection =
      attempt.connection
        ? std::get_if<std::shared_ptr<net::connection>>(&*attempt.connection)
        : nullptr;
    const auto incarnation = attempt.peer.incarnation;
    if (connection && participant->view().contains(task, incarnation))
      return add_peer(task, incarnation, std::move(*connection));
    if (connection) {
      (*connection)->close("it is another process than that of the view");
      abort(ec::stalled, "another process has taken the place of " + name);
    } else if (attempt.rejected && is_retryable(attempt.payload)
               && now() + retry_delay < peer_deadline) {
      self->delayed_send(self, retry_delay, atom::next_v, task);
    } else {
      abort(ec::stalled, own_name() + " could not connect to " + name + ": "
                           + attempt.reason);
    }
  }

  /// A participant with a higher task has connected, perhaps before this one
  /// knows the view. If it connects again before the start, it has given up its
  /// first connection.
  void accept_peer(const membership_event::accepted& x) {
    const auto& [connection, request] = x;
    const auto& view = participant->view();
    if (request.task <= options.self.task || request.task >= task_count())
      return connection->close("a process with a higher task number dials");
    if (has_started)
      return connection->close("the job has begun");
    if (view.view_id == 0) {
      if (early_peers.size() >= 4 * task_count())
        return connection->close("too many processes connect before the start");
      return early_peers.push_back(x);
    }
    if (!view.contains(request.task, request.incarnation))
      return connection->close("another process is the admitted "
                               + options.processes.names[request.task]);
    add_peer(request.task, request.incarnation, connection);
  }

  void log_later() {
    self->delayed_send(self,
                       std::min(max_report_delay, options.start_timeout / 4),
                       atom::missing_v);
  }

  void log_missing() {
    if (!leader)
      return log_refusal();
    const auto tasks = leader->missing();
    if (leader->is_gathering() && !tasks.empty() && options.log)
      options.log(net::severity::warning,
                  describe({.kind = failure_kind::start_not_joined,
                            .code = ec::stalled,
                            .processes = tasks,
                            .cause = rejected_text()},
                           options.processes));
  }

  void log_refusal() {
    if (candidate && !candidate->knows_job() && !refusals.empty())
      options.log(net::severity::warning,
                  own_name() + " cannot join yet, and tries again for at most "
                    + std::to_string(remaining().count())
                    + " ms: " + refusal());
  }

  /// Returns why a process of the job does not accept this candidate. Empty: no
  /// process has said so.
  std::string refusal() const {
    return refusals.empty() ? std::string{} : refusals.begin()->second;
  }

  // -- effects ----------------------------------------------------------------

  void perform(membership::reaction&& effects) {
    for (auto& x : effects)
      std::visit([this](auto& effect) { perform(effect); }, x);
  }

  void perform(membership::admitted&) {}
  void perform(membership::rejected&) {} // see `accepted`
  void perform(membership::send& x) { send(x.task, x.message); }
  void perform(membership::view_changed& x) {
    if (leader)
      arm_watchdog(remaining() + lane_timeout);
    options.peers->update([&] { options.peers->view = std::move(x.view); });
    if (participant)
      dial_peers();
  }
  void perform(membership::started&) {
    has_started = true;
    tell_later(packet_reporter::interval,
               membership_event::packet_reports_due{});
    note_installed(options.peers->view);
    if (candidate) {
      ++watchdog; // the group has timeouts of its own
      return options.peers->update([this] { options.peers->started = true; });
    }
    const auto& view = leader ? leader->view() : participant->view();
    view_changes.begin(view, options.self.incarnation);
    // What has happened before this process received `start`.
    for (const auto& x : view.members)
      if (options.peers->entries[x.task].has_left)
        view_changes.on_dead(x.incarnation);
    report_lost_members(view);
    options.peers->update([this] { options.peers->started = true; });
  }
  void perform(membership::failed& x) {
    auto& why = x.why;
    why.timeout_ms = static_cast<std::uint64_t>(options.start_timeout.count());
    if (why.kind == failure_kind::start_not_joined)
      why.cause = rejected_text();
    const auto text =
      net::printable(describe(why, options.processes), net::max_sentence_bytes);
    for (const auto task : x.notify)
      send(task, {membership::message_kind::abort, text, {}});
    for (const auto& x : std::exchange(early_peers, {}))
      x.connection->close(text);
    options.peers->update([&] { options.peers->failed = std::move(why); });
  }
  void perform(membership::left& x) {
    options.peers->update(
      [&] { options.peers->entries[x.task].has_left = true; });
    if (const auto it = peers.find(x.task); it != peers.end())
      view_changes.on_dead(it->second.incarnation);
  }
  void perform(membership::job_ends&) {
    view_changes.end();
    options.peers->update([this] { options.peers->no_next_view = true; });
  }
  void perform(membership::ended&) {
    options.peers->update([this] { options.peers->may_close = true; });
  }

  /// Tells a process that it cannot join, and ends its connection.
  void reject(net::connection& connection, const membership::rejection& why) {
    const auto reason = net::printable(describe(why, options.processes.names),
                                       net::max_sentence_bytes);
    post(*connection.open(membership_channel), 1,
         {membership::message_kind::reject, reason, {}});
    connection.close(reason);
    if (why.task < task_count())
      rejections[why.task] = reason;
    if (options.log)
      options.log(net::severity::warning,
                  own_name() + " rejected a process: " + reason);
  }

  // -- peers ------------------------------------------------------------------

  void add_peer(std::uint32_t task, std::uint64_t incarnation,
                std::shared_ptr<net::connection> connection) {
    auto& one = peers[task];
    if (one.connection)
      one.connection->close("the process has connected again");
    one = {connection,
           connection->open(membership_channel),
           connection->open(view_change_channel),
           connection->open(result_channel),
           connection->open(packet_report_channel),
           incarnation,
           ++last_connection,
           watch(connection->peer()),
           0};
    if (one.process)
      process_numbers[incarnation] = one.process->number();
    if (!options.peers->stop.requested)
      causes_of_loss.erase(incarnation);
    note_connected(task, incarnation);
    options.peers->update([&] {
      auto& entry = options.peers->entries[task];
      const bool has_left = entry.incarnation == incarnation && entry.has_left;
      entry = {std::move(connection), incarnation, has_left, {}};
    });
    one.membership->set_listener(std::make_shared<channel_listener>(
      self, task, one.number, membership_channel));
    one.view_change->set_listener(std::make_shared<channel_listener>(
      self, task, one.number, view_change_channel));
    one.results->set_listener(std::make_shared<channel_listener>(
      self, task, one.number, result_channel));
    one.packet_reports->set_listener(std::make_shared<channel_listener>(
      self, task, one.number, packet_report_channel));
    report_if_ready();
  }

  std::shared_ptr<const net::process_handle> watch(const net::hello& of) const {
    if (options.watch)
      return options.watch(read_process_identity(of));
    auto found = net::process_handle::open(read_process_identity(of));
    return found
             ? std::make_shared<const net::process_handle>(std::move(*found))
             : nullptr;
  }

  peer* find(std::uint32_t task, std::uint64_t incarnation) {
    const auto it = peers.find(task);
    return it != peers.end() && it->second.incarnation == incarnation
             ? &it->second
             : nullptr;
  }

  peer* find_connection(std::uint32_t task, std::uint64_t number) {
    const auto it = peers.find(task);
    return it != peers.end() && it->second.number == number ? &it->second
                                                            : nullptr;
  }

  void close_all(const std::string& reason) {
    for (const auto& [task, x] : peers)
      x.connection->close(reason);
    for (const auto& x : early_peers)
      x.connection->close(reason);
    for (const auto& [task, x] : dialed_candidates)
      x.connection->close(reason);
  }

  void send(std::uint32_t task, const membership::message& message) {
    const auto it = peers.find(task);
    if (it == peers.end())
      return; // its connection has ended, which the state machine hears
    auto& one = it->second;
    if (!post(*one.membership, ++one.last_tag, message))
      one.connection->close("a membership message could not be sent");
  }

  static bool post(net::channel& channel, std::uint64_t tag,
                   const membership::message& x) {
    return channel.post({net::frame_kind::oneway, net::priority::control, 0,
                         tag, net::encode(x.kind, x.text, x.view)});
  }

  // -- view changes -----------------------------------------------------------

  void on_view_change(peer& sender, std::uint32_t task,
                      const net::frame& frame) {
    sender.view_change->consumed(frame.priority);
    view_change::message message;
    if (const auto fault = net::decode(frame.payload, message))
      return sender.connection->close(
        "a message of a view change is malformed: " + to_string(*fault));
    const auto is_malformed = [this](const membership::member& x) {
      return x.task >= task_count() || x.host.empty() || x.port == 0;
    };
    if (std::ranges::any_of(message.known.joining, is_malformed))
      return sender.connection->close(
        "a message of a view change names an impossible process");
    for (const auto& x : message.proposals)
      for (const auto& member : x.proposal.next.members)
        if (member.task >= task_count())
          return sender.connection->close(
            "a message of a view change names task "
            + std::to_string(member.task) + " of "
            + std::to_string(task_count()));
    if (candidate) {
      if (message.kind != view_change::message_kind::install) {
        // This process may be a member of the sender's view.
        view_change::message inquiry;
        inquiry.kind = view_change::message_kind::inquire;
        send({task, sender.incarnation}, inquiry);
      } else if (message.proposals.size() == 1
                 && candidate->can_enter(
                   message.proposals.front().proposal.next)) {
        join(message.proposals.front());
      }
      return;
    }
    view_changes.on({task, sender.incarnation}, message);
  }

  void send(const view_change::process_id& receiver,
            const view_change::message& what) override {
    auto* const one = find(receiver.task, receiver.incarnation);
    if (!one)
      return; // its connection has ended, which the state machine hears
    auto payload = net::encode(what);
    const auto limit =
      one->view_change->limits().max_payload(net::priority::control);
    if (payload.size() > limit
        || !one->view_change->post({net::frame_kind::oneway,
                                    net::priority::control, what.view_id,
                                    ++one->last_tag, std::move(payload)}))
      one->connection->close("a message of a view change could not be sent");
  }
  void set_view_timer(milliseconds delay, std::uint64_t number) override {
    self->delayed_send(self, delay, atom::wake_v, number);
  }
  bool stop_replicas() override {
    const auto view_id = options.peers->view.view_id;
    note_stop();
    bool has_stopped = false;
    std::function<void()> listener;
    options.peers->update([&] {
      auto& stop = options.peers->stop;
      stop.requested = true;
      has_stopped = stop.stopped || !stop.has_group;
      listener = stop.on_requested;
    });
    if (has_stopped)
      return true;
    if (listener)
      listener();
    const membership_event::stop_overdue end{view_id};
    // If members are lost, or a lane is cut, that ends the run. If members
    // leave, the run in which all have agreed on that is about to end.
    // Otherwise nothing else ends it.
    if (view_changes.misses_members() || view_changes.has_leavers()
        || view_changes.wants_renewal())
      self->delayed_send(self, end_of_run_delay, end);
    else
      self->send(self, end);
    return false;
  }
  std::optional<view_change::job_position> stopped_position() override {
    return options.peers->get([this] {
      const auto& stop = options.peers->stop;
      return stop.has_group ? stop.position : view_change::job_position{};
    });
  }
  bool defers_candidates() override {
    return options.peers->get(
      [this] { return options.peers->deferral.active; });
  }
  void on_state_lost() override {
    options.peers->update([&] { options.peers->no_next_view = true; });
    if (options.log)
      options.log(net::severity::warning,
                  "no process that " + own_name()
                    + " can reach has the complete state of the job");
  }
  bool may_have_ended(std::uint32_t task) override {
    return ending.contains(options.peers->entries[task].incarnation);
  }
  void on_installed(const membership::view& next) override {
    withdraw_question();
    std::erase_if(process_numbers, [&](const auto& x) {
      return std::ranges::none_of(next.members,
                                  [&](const auto& member) {
                                    return member.incarnation == x.first;
                                  })
             && std::ranges::none_of(peers, [&](const auto& one) {
                  return one.second.incarnation == x.first;
                });
    });
    const auto is_no_member = [&](std::uint64_t incarnation) {
      return std::ranges::find(next.members, incarnation,
                               &membership::member::incarnation)
             == next.members.end();
    };
    std::erase_if(silent_members,
                  [&](const auto& x) { return is_no_member(x.first); });
    std::erase_if(dialed_members, is_no_member);
    std::erase_if(causes_of_loss, [&](const auto& x) {
      return is_no_member(x.first)
             || std::ranges::any_of(peers, [&](const auto& one) {
                  return one.second.incarnation == x.first;
                });
    });
    note_installed(next);
    log("view " + std::to_string(next.view_id) + " of the job has "
        + std::to_string(next.members.size()) + " of its "
        + std::to_string(task_count()) + " processes");
    // An excluded process may be stopped. Nothing that it does has an effect.
    for (const auto& x : options.peers->view.members)
      if (!next.contains(x.task, x.incarnation)
          && options.peers->entries[x.task].incarnation == x.incarnation)
        report(x.task);
    options.peers->update([&] {
      auto& peers = *options.peers;
      peers.view = next;
      peers.stop.requested = peers.no_next_view = false;
      std::erase_if(peers.streams, [&](const auto& x) {
        return std::get<0>(x.first) < next.view_id;
      });
      std::erase_if(peers.counts, [&](const auto& x) {
        return x.first.first < next.view_id;
      });
      std::erase_if(peers.stream_failures, [&](const auto& x) {
        return x.first.first < next.view_id;
      });
    });
    if (leader)
      leader->on_installed(next);
    else
      participant->on_installed(next);
    if (reconnects)
      reconnects->on_installed(next);
    report_lost_members(next);
    for (const auto& [task, x] : peers)
      if (x.request && !next.contains(task, x.incarnation))
        send_view(task);
  }
  /// Tells a candidate the view of the job.
  void send_view(std::uint32_t task) {
    send(task, {membership::message_kind::current_view,
                leader ? membership::leads_job : "",
                options.peers->get([this] { return options.peers->view; })});
  }
  /// The others go on without this process, so its runs have to end.
  void on_removed(const membership::view& next, bool left) override {
    note({.kind = flight_event_kind::excluded, .view = next.view_id});
    const auto view = "view " + std::to_string(next.view_id) + " of the job";
    const auto line = own_name()
                      + (left ? " has left; " + view + " is without it"
                              : " is excluded from " + view);
    log(line);
    options.peers->update([&] {
      options.peers->view = next;
      options.peers->excluded = true;
      options.peers->has_left = left;
    });
    // One that has left tells the others about the view as long as it runs.
    if (!left)
      close_all(line);
  }
  /// The processes that do not answer may be stopped. If they have a launcher,
  /// it ends them, and then they are known to be dead. That helps only those
  /// that are half of the members; fewer must not end the others.
  void on_silence(const std::vector<std::uint32_t>& silent_tasks) override {
    report_half(silent_tasks);
  }
  void on_no_majority(const std::vector<std::uint32_t>& silent_tasks) override {
    if (dial_silent_members(silent_tasks))
      return;
    if (report_half(silent_tasks))
      self->delayed_send(
        self, launcher_timeout,
        membership_event::undecided{options.peers->view.view_id, silent_tasks});
    else if (!ask_for_survivors(silent_tasks))
      give_up(silent_tasks);
  }
  /// Reports processes to their launcher, if they are at most half of the
  /// members.
  /// @returns false if none was reported.
  bool report_half(const std::vector<std::uint32_t>& silent_tasks) const {
    if (2 * silent_tasks.size() > options.peers->view.members.size())
      return false;
    bool is_reported = false;
    for (const auto task : silent_tasks)
      is_reported |= report(task);
    return is_reported;
  }
  /// Asks the launcher whether only the members that answer live. They are
  /// fewer than half, so it is certain only if the launcher knows all processes
  /// that may belong to the job. A connection that is being made again may
  /// answer.
  /// @returns false if there is no launcher that can know all members.
  bool ask_for_survivors(const std::vector<std::uint32_t>& silent_tasks) {
    if (!options.launcher)
      return false;
    net::survivors_question question;
    membership_event::survivors_asked asked;
    for (const auto& x : options.peers->view.members) {
      if (x.incarnation == options.self.incarnation)
        continue;
      const auto known = process_numbers.find(x.incarnation);
      if (known == process_numbers.end())
        return false;
      question.members.push_back(known->second);
      const auto& entry = options.peers->entries[x.task];
      if (entry.incarnation == x.incarnation && entry.has_left) {
        question.left.push_back(known->second);
      } else if (find(x.task, x.incarnation)
                 || is_awaited(x.task, x.incarnation)) {
        question.living.push_back(known->second);
        asked.living.push_back({x.task, x.incarnation});
      }
    }
    open_question = options.launcher->ask(question);
    asked.view_id = options.peers->view.view_id;
    asked.question = open_question;
    asked.deadline = now() + answer_timeout;
    asked.silent_tasks = silent_tasks;
    tell_later(answer_interval, asked);
    return true;
  }
  void on(const membership_event::survivors_asked& x) {
    const bool is_awaited = options.peers->get([&] {
      return options.peers->view.view_id == x.view_id
             && !options.peers->excluded;
    });
    if (!is_awaited || x.question != open_question)
      return;
    const auto answer = options.launcher->answer_to(x.question);
    if (!answer && now() < x.deadline)
      return tell_later(answer_interval, x);
    open_question = 0;
    if (answer && *answer)
      view_changes.on_survivors(x.living);
    else
      give_up_if_silent(x.silent_tasks);
  }
  void withdraw_question() {
    if (std::exchange(open_question, 0) > 0)
      options.launcher->withdraw();
  }
  /// Reports a process that does not answer to its launcher.
  /// @returns false if it has left or ended, or has no launcher that this
  ///          process knows.
  bool report(std::uint32_t task) const {
    const auto& entry = options.peers->entries[task];
    const auto it = lost_processes.find(entry.incarnation);
    if (!options.launcher || entry.has_left || it == lost_processes.end())
      return false;
    options.launcher->report_unreachable(it->second->number());
    return true;
  }
  void give_up(const std::vector<std::uint32_t>& silent_tasks) {
    std::string names;
    for (const auto task : silent_tasks)
      if (!options.peers->entries[task].has_left)
        names += (names.empty() ? "" : ", ") + options.processes.names[task];
    withdraw_question();
    note({.kind = flight_event_kind::no_majority, .text = names});
    // The launcher is told (`on_job_failure`), counts this process as lost, and
    // may let the others go on. So it must not take part in a later view.
    const bool leaves = options.launcher != nullptr;
    if (leaves)
      view_changes.end();
    options.peers->update([&] {
      options.peers->no_next_view = true;
      options.peers->has_left |= leaves;
    });
    if (!names.empty())
      log(own_name()
          + " and those it can reach are too few to agree on the "
            "next view; no answer from: "
          + names);
    if (leaves)
      on(membership_event::leave{true});
  }

  /// Reports the members to which there is no connection. One that was cut
  /// while this process or the other one was joining is made again.
  void report_lost_members(const membership::view& view) {
    for (const auto& x : view.members) {
      if (x.task == options.self.task || find(x.task, x.incarnation)
          || is_awaited(x.task, x.incarnation))
        continue;
      if (reconnects && is_member(x.task, x.incarnation)
          && !lost_processes.contains(x.incarnation)
          && !view_changes.is_dead(x.incarnation))
        reconnects->on_cut({x.task, x.incarnation}, {});
      else
        view_changes.on_lost(x.incarnation);
    }
  }

  // -- the end of a recovery --------------------------------------------------

  /// Ends the recovery of this process if its program wants to stop and the
  /// recovery does not end by itself.
  void end_recovery_if_to_stop() {
    const bool is_to_stop = options.peers->get([this] {
      const auto& stop = options.peers->stop;
      return stop.recovers && stop.is_to_stop && stop.is_to_stop();
    });
    if (!is_to_stop) {
      stop_wanted_since.reset();
      return;
    }
    if (!stop_wanted_since)
      stop_wanted_since = now();
    if (now() - *stop_wanted_since >= options.stop_delay)
      options.peers->end_runs(
        {.code = ec::cancelled,
         .cause = own_name()
                  + " was told to stop, and its recovery had not ended within "
                  + std::to_string(options.stop_delay.count()) + " ms"});
  }

  // -- packet reports ---------------------------------------------------------

  /// Reports to the other processes how many packets they were sent. If a
  /// report cannot be sent, the next one replaces it.
  void on(const membership_event::packet_reports_due& x) {
    tell_later(packet_reporter::interval, x);
    end_recovery_if_to_stop();
    for (auto& [task, one] : peers) {
      const auto sent = options.peers->get([this, at = task] {
        const auto view_id = options.peers->view.view_id;
        const auto found = options.peers->counts.find({view_id, at});
        return found == options.peers->counts.end()
                 ? packet_report{view_id}
                 : found->second->sent(view_id);
      });
      if (auto report = one.reporter.on_interval(sent))
        one.packet_reports->post({net::frame_kind::oneway,
                                  net::priority::control, report->view_id,
                                  ++one.last_tag, net::encode(*report)});
    }
  }
  void on_packet_report(std::uint32_t task, peer& sender,
                        const net::frame& frame) {
    sender.packet_reports->consumed(frame.priority);
    packet_report report;
    if (const auto fault = net::decode(frame.payload, report))
      return sender.connection->close("a report of packets is malformed: "
                                      + to_string(*fault));
    const auto counts = options.peers->get([&] {
      // The sender can have entered the next view before this process.
      const auto own = options.peers->view.view_id;
      return report.view_id == own || report.view_id == own + 1
               ? options.peers->counts_of(report.view_id, task)
               : nullptr;
    });
    if (counts)
      counts->set_reported(report);
  }

  // -- flight recorder --------------------------------------------------------

  void note(const flight_event& event) const {
    record_event(options.peers->recorder, event);
  }
  void note_connected(std::uint32_t task, std::uint64_t incarnation) const {
    const auto before = options.peers->entries[task].incarnation;
    note({.kind = before == 0 || before == incarnation
                    ? flight_event_kind::connected
                    : flight_event_kind::process_restarted,
          .process = task});
  }
  void note_lost(std::uint32_t task, net::close_reason cause,
                 const std::string& reason) const {
    note({.kind = flight_event_kind::disconnected,
          .process = task,
          .text = reason});
    if (close_code(cause) == ec::unreachable)
      note({.kind = flight_event_kind::process_unreachable, .process = task});
  }
  void note_dead(std::uint64_t incarnation) const {
    for (std::uint32_t task = 0; task < task_count(); ++task)
      if (options.peers->entries[task].incarnation == incarnation)
        note({.kind = flight_event_kind::process_dead, .process = task});
  }
  void note_stop() const {
    if (!options.peers->stop.requested)
      note({.kind = flight_event_kind::view_change_begun,
            .text = reason_of_view_change()});
  }
  /// Records a view, and which processes it loses and gains. @pre the table
  /// still has the view before it.
  void note_installed(const membership::view& next) const {
    std::string names;
    for (const auto& x : next.members)
      names += (names.empty() ? "" : ", ") + options.processes.names[x.task];
    note({.kind = flight_event_kind::view_agreed,
          .view = next.view_id,
          .text = names});
    const auto& before = options.peers->view;
    for (const auto& x : before.members)
      if (!next.find(x.task) && x.task != options.self.task)
        note({.kind = options.peers->entries[x.task].has_left
                        ? flight_event_kind::process_left
                        : flight_event_kind::process_lost,
              .view = next.view_id,
              .process = x.task});
    if (before.view_id == 0 || before.view_id == next.view_id)
      return;
    for (const auto& x : next.members)
      if (!before.contains(x.task, x.incarnation))
        note({.kind = flight_event_kind::process_joined,
              .view = next.view_id,
              .process = x.task});
  }

  void log(const std::string& line) const {
    if (options.log)
      options.log(net::severity::info, line);
  }

  // -- helpers ----------------------------------------------------------------

  std::uint32_t task_count() const {
    return static_cast<std::uint32_t>(options.processes.names.size());
  }
  const std::string& own_name() const {
    return options.processes.names[options.self.task];
  }

  /// Returns a text about the processes and connections that were rejected.
  std::string rejected_text() const {
    if (!leader)
      return {};
    std::string out;
    for (const auto task : leader->missing())
      if (const auto it = rejections.find(task); it != rejections.end())
        out += "; rejected: " + it->second;
    if (out.empty() && options.describe_rejected_peers)
      out = options.describe_rejected_peers();
    return out + options.peers->get([this] {
      return options.peers->unknown_hosts;
    });
  }

  /// Returns the rest of the start timeout.
  milliseconds remaining() const {
    return std::max(std::chrono::duration_cast<milliseconds>(
                      begun + options.start_timeout - now()),
                    0ms);
  }
  caf::timespan now() const { return self->clock().now().time_since_epoch(); }

  /// Replaces the timeout of the current phase.
  void arm_watchdog(milliseconds delay) {
    self->delayed_send(self, delay, atom::watchdog_v, ++watchdog);
  }

  pointer self = nullptr;
  membership_options options;
  caf::timespan begun{};
  std::uint64_t watchdog = 0; ///< Number of the last timeout.
  /// One of the three exists. A candidate becomes a participant.
  std::optional<membership::leader> leader;
  std::optional<membership::participant> participant;
  std::optional<membership::candidate> candidate;
  std::map<std::uint32_t, peer> peers; ///< By task.
  /// By task: processes that ask to join, and that this process dials.
  std::map<std::uint32_t, membership_event::candidate_accepted>
    dialed_candidates;
  /// Addresses of those that have not answered, for one warning each; not all
  /// if there are many.
  std::set<std::pair<std::string, std::uint16_t>> unreachable_candidates;
  /// Participants that have connected before this one knew the view.
  std::vector<membership_event::accepted> early_peers;
  std::uint64_t last_connection = 0; ///< Number of the last connection.
  caf::timespan peer_deadline{};     ///< End of the attempts to dial peers.
  /// Candidate: tasks that were last dialed at the address in a view.
  std::set<std::uint32_t> dialed_by_view;
  /// Candidate, by task: why a process has closed the last connection to it.
  std::map<std::uint32_t, std::string> refusals;
  /// Candidate that has rivals: the first member has accepted it.
  bool is_first_accepted = false;
  bool lanes_open = false;  ///< The lanes of this process to all others.
  bool has_started = false; ///< The job has begun.
  view_change_host view_changes{*this};
  /// Empty: no connection is made again.
  std::optional<reconnector> reconnects;
  /// By incarnation: processes of this host to which the connection has ended,
  /// and which have not ended.
  std::map<std::uint64_t, std::shared_ptr<const net::process_handle>>
    lost_processes;
  /// By incarnation: members that were silent, so that the connection to them
  /// has ended, and that are not known to have ended.
  std::map<std::uint64_t, reconnector::cut_connection> silent_members;
  /// Incarnations of those that were dialed once more since then.
  std::set<std::uint64_t> dialed_members;
  /// By incarnation: numbers of the processes of this host that were connected.
  std::map<std::uint64_t, std::uint64_t> process_numbers;
  /// Since when the program wants to stop during a recovery. None: it does not.
  std::optional<caf::timespan> stop_wanted_since;
  /// Number of the question to the launcher that has no answer. Zero: none.
  std::uint64_t open_question = 0;
  /// By incarnation: why the connections to members have ended. A member that
  /// connects again during a view change stays here until its end.
  std::map<std::uint64_t, std::string> causes_of_loss;
  /// Incarnations of the processes of this host that may be ending.
  std::set<std::uint64_t> ending;
  /// By task: why the leader last rejected a process that asked for it.
  std::map<std::uint32_t, std::string> rejections;
  /// Call of the last request of results, and tasks that have not answered it.
  std::uint64_t requested_call = 0;
  std::set<std::uint32_t> unanswered;
  /// Candidate: `connections_overdue` has been sent.
  bool awaits_connections = false;
  /// Reason for which the leader has rejected this process. Empty: none.
  std::string last_rejection;
};

membership_internal_actor::behavior_type
membership_role(membership_state::pointer self, membership_options options) {
  auto& state = self->state;
  state.self = self;
  state.options = std::move(options);
  state.begun = state.now();
  state.start();
  using namespace membership_event;
  return {
    [&state](const accepted& x) { state.on(x); },
    [&state](const candidate_accepted& x) { state.on(x); },
    [&state](const accepted_again& x) { state.on(x); },
    [&state](const lanes_open& x) { state.on(x); },
    [&state](const aborted& x) { state.on(x); },
    [&state](const ask_to_join& x) { state.on(x); },
    [&state](const request_results& x) { state.on(x); },
    [&state](const replicas_stopped& x) { state.on(x); },
    [&state](const renewal_wanted& x) { state.on(x); },
    [&state](const no_lanes& x) { state.on(x); },
    [&state](const leaving& x) { state.on(x); },
    [&state](const leave& x) { state.on(x); },
    [&state](const received& x) { state.on(x); },
    [&state](const closed& x) { state.on(x); },
    [&state](const dialed& x) { state.on(x); },
    [&state](const candidate_dialed& x) { state.on(x); },
    [&state](const dialed_again& x) { state.on(x); },
    [&state](const peer_lost& x) { state.on(x); },
    [&state](const end_check& x) { state.on(x); },
    [&state](const dial_again& x) { state.on(x); },
    [&state](const not_reconnected& x) { state.on(x); },
    [&state](const stop_overdue& x) { state.on(x); },
    [&state](const undecided& x) { state.on(x); },
    [&state](const survivors_asked& x) { state.on(x); },
    [&state](const packet_reports_due& x) { state.on(x); },
    [&state](const connections_overdue& x) { state.on(x); },
    [&state](atom::watchdog, std::uint64_t number) {
      state.on_watchdog(number);
    },
    [&state](atom::wake, std::uint64_t number) {
      state.view_changes.on_timeout(number);
    },
    [&state](atom::next, std::uint32_t task) { state.dial(task); },
    [&state](atom::next) { state.repeat_ask(); },
    [&state](atom::missing) { state.log_missing(); },
  };
}

} // namespace

membership_actor spawn_membership(caf::actor_system& system,
                                  const membership_options& options) {
  const auto out = system.spawn(membership_role, options);
  release_caf_logger();
  return out;
}

} // namespace troupe

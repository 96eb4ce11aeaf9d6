#include "troupe/simulation/elastic_job.hpp"

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/wait_clock.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/group/recovering_group.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/actor/spawn_membership.hpp"
#include "troupe/actors/membership/elastic_group/elastic_group.hpp"
#include "troupe/actors/membership/elastic_group/lane_failure.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/actors/membership/peers/reconnect_admission.hpp"
#include "troupe/actors/membership/stream_admission.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/net/cluster/survivors_ruling.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/replica/devices.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Stack size of a fiber that runs a program, possibly a whole training.
constexpr std::size_t stack_bytes = std::size_t{1} << 20;
constexpr auto job_name = "job";
/// Maximum time in which the processes of a later view open their lanes.
constexpr auto lane_timeout = 10s;
/// As in `cluster`: time after which missing lanes could not be opened.
constexpr auto min_lane_time = 1s;
/// Time from the end of a program to the end of its process.
constexpr auto exit_delay = 20ms;
/// Maximum time from the end of the connections of a process that is killed to
/// the end of this process. The others see both.
constexpr std::uint64_t max_end_delay_ms = 3;
/// Time until a launcher has ended a process.
constexpr auto launcher_delay = 1ms;

class virtual_time final : public wait_clock::source {
public:
  explicit virtual_time(const simulator& sim) : sim_{sim} {}
  wait_clock::time_point now() const override {
    if (is_ending_)
      offset_ += std::chrono::hours{1};
    return wait_clock::time_point{sim_.elapsed() + offset_};
  }

  /// From now on, each call of `now` returns a later time, so that all
  /// deadlines pass, also later ones.
  void begin_end() { is_ending_ = true; }
  void end_end() {
    is_ending_ = false;
    offset_ = {};
  }

private:
  const simulator& sim_;
  bool is_ending_ = false;
  mutable caf::timespan offset_{};
};

/// Parks the fiber of a process until it is notified or its timeout elapses.
class process_waits final : public wait_strategy {
public:
  explicit process_waits(const simulator& sim) : sim_{sim} {}

  bool wait(std::unique_lock<std::mutex>& hold,
            const std::function<bool()>& done, milliseconds timeout) override {
    const auto end = sim_.elapsed() + timeout;
    while (!done()) {
      if (is_dead_ || sim_.elapsed() >= end)
        return false;
      deadline_ = end;
      is_notified_ = false;
      hold.unlock(); // roles that run during the wait may lock it
      fiber::park();
      hold.lock();
    }
    return true;
  }
  void notify() override {
    is_notified_ = true;
    if (on_notify)
      on_notify();
  }
  /// Called at each change of the peer table, with its lock held. Empty: not
  /// called.
  std::function<void()> on_notify;

  /// True if the fiber may go on.
  bool is_due() const { return is_notified_ || sim_.elapsed() >= deadline_; }
  /// From now on no wait parks the fiber: all end as if they had timed out.
  void end() { is_dead_ = true; }
  bool has_ended() const { return is_dead_; }

private:
  const simulator& sim_;
  caf::timespan deadline_{};
  bool is_notified_ = true;
  bool is_dead_ = false;
};

/// A process of a simulated host.
class simulated_handle final : public net::process_handle {
public:
  simulated_handle(std::shared_ptr<const bool> has_exited, std::uint64_t number)
    : process_handle{number}, has_exited_{std::move(has_exited)} {}
  bool has_ended() const override { return *has_exited_; }

private:
  std::shared_ptr<const bool> has_exited_;
};

/// Notes in which call of a replica group the program of a process is.
class observed_group final : public replica_group, public recovering_group {
public:
  observed_group(std::unique_ptr<replica_group> group, process_life& life)
    : group_{std::move(group)}, life_{life} {}

  const local_placement& replica_placement() const override {
    return group_->replica_placement();
  }
  std::string process_name(std::uint32_t process) const override {
    return group_->process_name(process);
  }
  std::uint64_t max_steps_ahead() const override {
    return group_->max_steps_ahead();
  }
  std::uint64_t run(const run_request& request) override {
    const phase_guard in{life_, run_phase::running};
    if (!request.on_commit)
      return group_->run(request);
    auto observed = request;
    observed.on_commit = [this, &request](const commit_record& x) {
      life_.processed_by_chief =
        std::max(life_.processed_by_chief, x.processed_by_chief);
      request.on_commit(x);
    };
    return group_->run(observed);
  }
  void stop() override { group_->stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    group_->for_each(fn);
  }
  bool enter_next_view(const std::optional<view_change::job_position>& position,
                       milliseconds timeout) override {
    const phase_guard in{life_, group_->is_joining() ? run_phase::joining
                                                     : run_phase::changing};
    return group_->enter_next_view(position, timeout);
  }
  std::uint64_t incarnation() const override { return group_->incarnation(); }
  std::vector<std::uint64_t> members() const override {
    return group_->members();
  }
  std::uint64_t view_id() const override { return group_->view_id(); }
  leave_result let_leave(const std::vector<std::uint64_t>& leavers,
                         const view_change::job_position& position,
                         milliseconds timeout) override {
    const phase_guard in{life_, run_phase::changing};
    return group_->let_leave(leavers, position, timeout);
  }
  void leave_at_once() override { group_->leave_at_once(); }
  bool has_left() const override { return group_->has_left(); }
  bool is_excluded() const override { return group_->is_excluded(); }
  bool is_joining() const override { return group_->is_joining(); }
  void record_result(std::uint64_t call, const std::string& result) override {
    group_->record_result(call, result);
  }
  std::optional<std::string> result_of(std::uint64_t call) override {
    const phase_guard in{life_, run_phase::asking};
    return group_->result_of(call);
  }
  void reject_candidates(const std::string& reason) override {
    group_->reject_candidates(reason);
  }
  void defer_candidates(bool deferred) override {
    group_->defer_candidates(deferred);
  }
  bool has_deferred_candidate() override {
    return group_->has_deferred_candidate();
  }
  std::function<bool()>
  set_stop_request(std::function<bool()> is_to_stop) override {
    auto* const it = dynamic_cast<recovering_group*>(group_.get());
    return it ? it->set_stop_request(std::move(is_to_stop)) : nullptr;
  }
  void set_recovering(bool recovers) override {
    if (auto* const it = dynamic_cast<recovering_group*>(group_.get()))
      it->set_recovering(recovers);
  }
  bool may_have_last_state() const override {
    const auto* const it = dynamic_cast<const recovering_group*>(group_.get());
    return it && it->may_have_last_state();
  }
  void admit_candidates(milliseconds timeout) override {
    group_->admit_candidates(timeout);
  }
  std::function<void(const failure_report&)> run_terminator() override {
    return group_->run_terminator();
  }
  std::shared_ptr<job_status_source> status_source() const override {
    return group_->status_source();
  }

private:
  struct phase_guard {
    phase_guard(process_life& life, run_phase next) : life{life} {
      life.phase = next;
    }
    ~phase_guard() { life.phase = run_phase::idle; }
    phase_guard(const phase_guard&) = delete;
    phase_guard& operator=(const phase_guard&) = delete;
    process_life& life;
  };

  std::unique_ptr<replica_group> group_;
  process_life& life_;
};

/// Passes messages and packets to the injector of the job. When the delay of a
/// packet ends, the process that has sent it is woken.
class process_injector final : public fault_injector {
public:
  process_injector(fault_injector& all, simulated_network& net,
                   std::uint32_t task)
    : fault_injector{all.steps()}, all_{all}, net_{net}, task_{task} {}

  injected_fault on_send(const role_id& sender, const role_id& receiver,
                         message_kind kind, std::uint64_t generation,
                         std::uint64_t step) override {
    return woken(all_.on_send(sender, receiver, kind, generation, step));
  }
  injected_fault on_packet(const role_id& sender, const role_id& receiver,
                           message_kind kind, std::uint64_t generation,
                           std::uint64_t step) override {
    return woken(all_.on_packet(sender, receiver, kind, generation, step));
  }

private:
  injected_fault woken(const injected_fault& out) {
    if (out.delay > 0ns)
      net_.notify_later(task_, out.delay);
    return out;
  }

  fault_injector& all_;
  simulated_network& net_;
  std::uint32_t task_;
};

network_options without_lanes(network_options x) {
  x.lanes = 0; // each view has lanes of its own
  return x;
}

} // namespace

struct elastic_job::impl {
  /// What runs a life.
  struct process {
    explicit process(simulator& sim)
      : waits{std::make_shared<process_waits>(sim)} {}

    process_life* life = nullptr;
    std::shared_ptr<process_waits> waits;
    bool has_ended = false;
    /// The other processes of the host can see that it has ended.
    std::shared_ptr<bool> has_exited = std::make_shared<bool>(false);
    membership::join_request request;
    membership_actor membership;
    std::shared_ptr<fault_injector> injector;
    /// Roles of the current group and of earlier ones.
    std::vector<caf::actor_addr> roles;
    bool has_started = false; ///< The job has begun, or it has joined.
    /// What it has asked the launcher without an answer.
    std::optional<net::survivors_question> question;
    caf::timespan question_due{};    ///< Time at which the launcher gives up.
    std::uint64_t last_question = 0; ///< Number of the last one.
    std::map<std::uint64_t, bool> answers; ///< By question.
    /// When it has given up its job in the current view. None: it has not.
    std::optional<caf::timespan> gave_up_at;
    std::weak_ptr<const strategy_state> state; ///< State of the strategy.
    std::unique_ptr<fiber> code;
  };
  /// Lanes of a view between two processes: id of the view, then the lower and
  /// the higher incarnation.
  using lane_key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

  impl(simulator& sim, const elastic_job_options& options, program fn,
       fault_injector* faults)
    : sim{sim},
      options{options},
      fn{std::move(fn)},
      faults{faults},
      time{sim},
      net{sim, options.processes, without_lanes(options.network)} {
    check(replica_group_options{.replicas = options.replicas});
    for (std::uint32_t p = 0; p < options.processes; ++p)
      names.push_back("process " + std::to_string(p));
    attributed = sim.sys.latest_actor_id();
    net.observe([this](std::uint32_t task, const net::frame& frame) {
      on_frame(task, frame);
    });
    for (std::uint32_t p = 0; p < options.processes; ++p)
      start(p, false);
  }

  ~impl() {
    sim.hold({});
    for (auto& x : processes) {
      x->waits->end();
      end_program(*x);
      caf::anon_send_exit(x->membership, caf::exit_reason::kill);
    }
    end_connections();
  }

  /// A proxy ends only when it has heard of the end of its connection.
  void end_connections() {
    // A process that was silent may have been started again since then.
    bool are_some_silent = is_split || lives.size() > names.size();
    for (std::uint32_t p = 0; p < names.size(); ++p) {
      are_some_silent |= net.is_disconnected(p);
      net.resume(p);
      net.disconnect(p, net::close_reason::closed);
    }
    sim.advance(2ms, 1ms);
    if (are_some_silent)
      sim.advance(options.network.heartbeat_timeout
                    + 2 * options.network.heartbeat_interval,
                  options.network.heartbeat_interval);
  }

  // -- start of a process -----------------------------------------------------

  std::uint32_t replicas_at_start(std::uint32_t task) const {
    const auto n = options.processes, r = options.replicas;
    return (task + 1) * r / n - task * r / n;
  }

  process& process_of(std::uint32_t task) {
    return *processes.at(current.at(task));
  }

  void start(std::uint32_t task, bool joins) {
    auto life = std::make_unique<process_life>();
    life->number = lives.size() + 1;
    life->task = task;
    life->incarnation = sim.draw() | 1;
    life->joins = joins;
    auto made = std::make_unique<process>(sim);
    auto& it = *made;
    it.life = life.get();
    it.request = {task, life->incarnation,       names[task],
                  1,    replicas_at_start(task), {}};
    life->peers = std::make_shared<peer_table>(names.size(), it.waits);
    it.waits->on_notify = [this, &it] { note_giving_up(it); };
    if (faults)
      it.injector = std::make_shared<process_injector>(*faults, net, task);
    current[task] = processes.size();
    lives.push_back(std::move(life));
    processes.push_back(std::move(made));
    spawn_membership_of(it);
    it.code =
      std::make_unique<fiber>([this, &it] { main(it); }, nullptr, stack_bytes);
  }

  net::process_identity identity_of(const process& x) const {
    return options.on_one_host
             ? net::process_identity{"host", x.life->number, 1}
             : net::process_identity{};
  }
  net::hello hello_of(const process& of, const std::string& purpose) const {
    return make_join_hello(job_name, names[of.life->task], purpose, of.request,
                           identity_of(of));
  }

  void spawn_membership_of(process& it) {
    const auto task = it.life->task;
    membership_options settings;
    settings.processes.names = settings.processes.addresses = names;
    settings.processes.job = job_name;
    settings.processes.self = task;
    settings.self = it.request;
    settings.joins = it.life->joins;
    settings.start_timeout = options.start_timeout;
    settings.shutdown_timeout = options.shutdown_timeout;
    settings.peers = it.life->peers;
    settings.dial_leader = [this, task, hello = hello_of(it, "control")](
                             milliseconds timeout,
                             membership_options::dial_callback on_done) {
      net.dial(task, 0, hello, timeout, std::move(on_done));
    };
    settings.dial_peer = [this, task, hello = hello_of(it, "peer")](
                           const membership::member& peer, milliseconds timeout,
                           membership_options::dial_callback on_done) {
      net.dial(task, peer.task, hello, timeout, std::move(on_done));
    };
    settings.dial_to_join = [this, task, hello = hello_of(it, "join")](
                              std::uint32_t peer, const membership::member*,
                              milliseconds timeout,
                              membership_options::dial_callback on_done) {
      dial(task, peer, hello, timeout, std::move(on_done));
    };
    settings.reconnect_timeout = options.network.heartbeat_timeout;
    if (options.reconnects)
      settings.dial_again =
        [this, &it](const membership::member& peer, milliseconds timeout,
                    membership_options::dial_callback on_done) {
          const auto hello = make_reconnect_hello(
            job_name, names[it.life->task], it.request,
            it.life->peers->view.view_id, peer.incarnation, identity_of(it));
          dial(it.life->task, peer.task, hello, timeout, std::move(on_done));
        };
    settings.watch = [this](const net::process_identity& of) {
      return handle_of(of);
    };
    if (options.has_launcher)
      settings.launcher = std::make_shared<launcher>(*this, it);
    it.membership = spawn_membership(sim.sys, settings);
    sim.own(it.membership);
    caf::actor_cast<caf::actor>(it.membership)
      ->attach_functor([this, task](const caf::error& reason) {
        if (reason && reason != caf::exit_reason::kill
            && reason != caf::exit_reason::user_shutdown)
          membership_errors.push_back(names[task] + ": "
                                      + sim.sys.render(reason));
      });
    attribute(task);
    net.listen(
      task, hello_of(it, "control"),
      [actor = it.membership.address()](
        const net::hello& from, std::shared_ptr<net::connection> connection) {
        accept(actor, from, std::move(connection));
      },
      [this, &it](const net::hello& from) { return refusal_of(it, from); });
  }

  /// Dials a process, unless no process can connect to it.
  void dial(std::uint32_t task, std::uint32_t peer, const net::hello& hello,
            milliseconds timeout, membership_options::dial_callback on_done) {
    if (!blocked.contains(peer))
      return net.dial(task, peer, hello, timeout, std::move(on_done));
    at(timeout, [on_done = std::move(on_done), name = names[peer]] {
      net::endpoint::dial_result failed;
      failed.cause = net::close_reason::timed_out;
      failed.reason = name + " does not answer";
      on_done(std::move(failed));
    });
  }

  /// As `cluster` does.
  std::string refusal_of(const process& it, const net::hello& from) const {
    reconnect_request request;
    if (from.purpose != "reconnect")
      return {};
    if (read_reconnect_hello(from, request))
      return "the hello is malformed";
    const auto& peers = *it.life->peers;
    return reconnect_refusal(peers.view, peers.started, request, names,
                             it.life->task, it.life->incarnation);
  }

  static void accept(const caf::actor_addr& membership, const net::hello& from,
                     std::shared_ptr<net::connection> connection) {
    const auto it = caf::actor_cast<membership_actor>(membership);
    if (reconnect_request again; it && !read_reconnect_hello(from, again)) {
      caf::anon_send(it, membership_event::accepted_again{
                           std::move(connection),
                           {again.dialer.task, again.dialer.incarnation}});
      return;
    }
    membership::join_request request;
    if (!it || read_join_hello(from, request))
      return;
    if (from.purpose == "join")
      caf::anon_send(it, membership_event::candidate_accepted{
                           std::move(connection), request});
    else
      caf::anon_send(
        it, membership_event::accepted{std::move(connection), request});
  }

  std::shared_ptr<const net::process_handle>
  handle_of(const net::process_identity& of) const {
    if (of.host.empty() || of.number == 0 || of.number > processes.size())
      return nullptr;
    const auto& has_exited = processes[of.number - 1]->has_exited;
    if (*has_exited)
      return nullptr;
    return std::make_shared<const simulated_handle>(has_exited, of.number);
  }

  /// The launcher as one process sees it. It has started all processes.
  class launcher final : public job_launcher {
  public:
    launcher(impl& job, process& by) : job_{job}, by_{by} {}

    void report_unreachable(std::uint64_t number) override {
      job_.report(by_, number);
    }
    bool report_candidate(const net::process_identity&) override {
      return true;
    }
    std::uint64_t ask(const net::survivors_question& question) override {
      by_.question = question;
      by_.question_due = job_.sim.elapsed() + launcher_delay
                         + net::launcher_link::question_timeout;
      ++by_.last_question;
      // The membership actor may end before that, and this object with it.
      job_.at(launcher_delay, [&job = job_, &by = by_] { job.consider(by); });
      return by_.last_question;
    }
    std::optional<bool> answer_to(std::uint64_t question) override {
      const auto found = by_.answers.find(question);
      return found == by_.answers.end() ? std::nullopt
                                        : std::optional{found->second};
    }
    void withdraw() override { by_.question.reset(); }

  private:
    impl& job_;
    process& by_;
  };

  /// As `child_processes::consider_question`.
  void consider(process& by) {
    if (!by.question || by.has_ended)
      return;
    std::vector<net::open_question> open;
    for (const auto& x : processes)
      if (!x->has_ended && x->question)
        open.push_back({x->life->number, *x->question});
    std::vector<net::launched_process> living;
    std::vector<std::uint64_t> waiting;
    for (const auto& x : processes)
      if (!x->has_ended) {
        const auto state = x->state.lock();
        const auto& peers = *x->life->peers;
        living.push_back({x->life->number, state && !state->lacks_state,
                          peers.excluded || peers.has_left});
        if (net::waits_for_ruling(x->life->number, open))
          waiting.push_back(x->life->number);
      }
    const auto ruling =
      net::rule_on_waiting(*by.question, by.life->number, living, waiting);
    if (ruling.is_certain() || sim.elapsed() >= by.question_due) {
      by.answers[by.last_question] = ruling.is_certain();
      survivors_named += ruling.is_certain();
      return by.question.reset();
    }
    for (const auto* numbers : {&ruling.unreachable, &ruling.starting})
      for (const auto number : *numbers) {
        ++launcher_kills;
        kill(*processes[number - 1], true);
      }
    at(launcher_delay, [this, &by] { consider(by); });
  }

  /// The launcher decides by the first report. A process that it has ended
  /// reports no more.
  void report(const process& by, std::uint64_t number) {
    if (!by.has_ended && number >= 1 && number <= processes.size())
      at(launcher_delay, [this, &by, number] {
        const auto& victim = *processes[number - 1];
        if (by.has_ended || victim.has_ended)
          return;
        ++launcher_kills;
        kill(*processes[number - 1], true);
      });
  }

  // -- the program of a process -----------------------------------------------

  void main(process& it) {
    auto& life = *it.life;
    try {
      join(it);
      run_program(it);
      life.is_completed = !it.waits->has_ended();
      if (life.is_completed)
        life.completed_at = sim.elapsed();
    } catch (const std::exception&) {
      life.error = std::current_exception();
    }
    life.phase = run_phase::ended;
    leave(it);
  }

  /// As `cluster` does.
  void join(process& it) {
    auto& peers = *it.life->peers;
    const auto wait_for = [&](auto done) {
      std::unique_lock hold{peers.lock};
      peers.wait(hold, wait_clock::now() + 60s,
                 [&] { return done() || peers.failed; });
      if (peers.failed)
        throw to_job_error(*peers.failed, {.names = names});
      if (!done())
        throw job_error(ec::stalled, "the membership actor does not answer");
    };
    wait_for([&] { return peers.view.view_id > 0; });
    if (!it.life->joins) {
      first_lanes[it.life->number] = open_lanes(it, peers.view);
      caf::anon_send(it.membership, membership_event::lanes_open{});
    }
    wait_for([&] { return peers.started; });
    it.has_started = true;
  }

  void run_program(process& it) {
    auto& life = *it.life;
    const auto first = life.peers->get([&] { return life.peers->view; });
    const auto tell = [actor = it.membership](auto event) {
      caf::anon_send(actor, std::move(event));
    };
    elastic_group_options settings;
    settings.peers = life.peers;
    settings.make_group = [this, &it](const membership::view& of) {
      return make_group(it, of);
    };
    settings.on_stopped = [tell] {
      tell(membership_event::replicas_stopped{});
    };
    settings.on_ask = [tell] { tell(membership_event::ask_to_join{}); };
    settings.request_results = [tell](std::uint64_t call) {
      tell(membership_event::request_results{call});
    };
    settings.on_leaving = [tell](std::uint64_t view_id,
                                 const std::vector<std::uint64_t>& leavers) {
      tell(membership_event::leaving{view_id, leavers});
    };
    settings.on_renewal_wanted = [tell](std::uint64_t view_id) {
      tell(membership_event::renewal_wanted{view_id});
    };
    settings.on_no_lanes = [tell](std::uint64_t view_id,
                                  std::uint64_t incarnation, bool is_newer) {
      tell(membership_event::no_lanes{view_id, incarnation, is_newer});
    };
    settings.on_giving_up = [tell] { tell(membership_event::leave{true}); };
    settings.joins = life.joins;
    settings.task = life.task;
    settings.name = "worker " + std::to_string(life.task);
    settings.timeout = std::max(options.step_timeout, options.start_timeout);
    auto group = std::make_unique<observed_group>(
      make_elastic_group(settings, first), life);
    life.phase = run_phase::idle;
    const auto replicas = std::max(group->replica_placement().count(),
                                   replicas_at_start(life.task));
    auto state = make_strategy_state(std::move(group), "multi_worker_mirrored",
                                     cpu_devices(replicas), 1);
    state->callback_timeout = options.step_timeout;
    it.state = state;
    fn(life, strategy{std::move(state)});
  }

  void leave(process& it) {
    auto& peers = *it.life->peers;
    std::unique_lock hold{peers.lock};
    caf::anon_send(it.membership, membership_event::leave{});
    peers.wait(hold, wait_clock::now() + options.shutdown_timeout,
               [&] { return peers.may_close; });
    std::vector<std::shared_ptr<net::connection>> connections;
    for (auto& peer : peers.entries)
      if (peer.connection)
        connections.push_back(std::move(peer.connection));
    hold.unlock();
    for (const auto& peer : connections)
      peer->close(names[it.life->task] + " has left");
  }

  /// After the end of its program.
  void finish(process& it) {
    auto& life = *it.life;
    if (life.state == process_life::fate::alive)
      life.state = process_life::fate::ended;
    if (!life.ended_at)
      life.ended_at = sim.elapsed();
    it.waits->end();
    net.listen(life.task, {}, {});
    caf::anon_send_exit(it.membership, caf::exit_reason::user_shutdown);
    at(exit_delay, [this, &it] {
      if (std::exchange(it.has_ended, true))
        return;
      *it.has_exited = true;
      if (&process_of(it.life->task) == &it)
        net.disconnect(it.life->task, net::close_reason::closed);
    });
  }

  // -- groups -----------------------------------------------------------------

  std::unique_ptr<replica_group> make_group(process& it,
                                            const membership::view& of) {
    auto& life = *it.life;
    if (it.waits->has_ended())
      throw job_error(ec::cancelled, "the process has ended");
    const auto phase = std::exchange(life.phase, run_phase::opening);
    std::vector<peer_lanes> lanes;
    if (const auto found = first_lanes.find(life.number);
        found != first_lanes.end()) {
      lanes = std::move(found->second);
      first_lanes.erase(found);
    } else {
      lanes = open_lanes(it, of);
    }
    group_environment environment{sim.sys};
    environment.replica_spawn_policy = spawn_policy::scheduled;
    environment.caller_wait_strategy = it.waits;
    environment.faults = it.injector;
    environment.via_mailbox = true;
    const auto replicas = std::make_shared<std::vector<caf::actor_addr>>();
    environment.on_spawn = [this, &it, replicas, view_id = of.view_id](
                             const role_id& who, const caf::actor& role) {
      sim.own(role);
      it.roles.push_back(role.address());
      if (who.role == role_id::kind::replica)
        replicas->push_back(role.address());
      if (who.role == role_id::kind::chief)
        chiefs.push_back({view_id, it.life->number});
    };
    const auto wake = [replicas] {
      for (const auto& who : *replicas)
        if (const auto role = caf::actor_cast<caf::actor>(who))
          caf::anon_send(role, atom::wake_v);
    };
    net.on_lane_event(life.task, wake);
    environment.job_world = make_world(it, of, std::move(lanes), wake);
    replica_group_options group_options;
    group_options.replicas = options.replicas;
    group_options.step_timeout = options.step_timeout;
    group_options.spin_timeout = std::chrono::microseconds{0};
    auto out = troupe::make_replica_group(environment, group_options);
    life.phase = phase;
    return out;
  }

  std::shared_ptr<const world> make_world(const process& it,
                                          const membership::view& of,
                                          std::vector<peer_lanes> lanes,
                                          const std::function<void()>& wake) {
    auto out = std::make_shared<world>();
    auto& peers = *it.life->peers;
    lane_backend_options backend_options;
    std::vector<placement::id_list> ids;
    for (const auto& one : of.members) {
      if (one.task == it.life->task)
        out->placement.process = static_cast<std::uint32_t>(ids.size());
      ids.push_back(one.replicas);
      out->names.push_back(names[one.task]);
      out->connections.push_back(peers.entries[one.task].connection);
      backend_options.counts.push_back(
        one.task == it.life->task ? nullptr
                                  : peers.counts_of(of.view_id, one.task));
      if (const auto& counts = backend_options.counts.back())
        counts->set_listener(wake);
    }
    out->placement.job = placement{std::move(ids)};
    out->view_id = of.view_id;
    backend_options.wake = wake;
    backend_options.now = [&in = sim] {
      return std::chrono::steady_clock::time_point{in.elapsed()};
    };
    backend_options.faults = it.injector;
    backend_options.loss_timeout = options.network.heartbeat_timeout;
    if (out->placement.count() > 0)
      out->backend = std::make_shared<lane_backend>(
        out->placement, std::move(lanes), backend_options);
    return out;
  }

  // -- lanes ------------------------------------------------------------------

  static lane_key key_of(std::uint64_t view_id, std::uint64_t a,
                         std::uint64_t b) {
    return {view_id, std::min(a, b), std::max(a, b)};
  }

  /// Each process dials those with a lower task, as `cluster` does. Streams
  /// that were accepted are in the peer table; they are null here.
  std::vector<peer_lanes> open_lanes(process& it, const membership::view& of) {
    const auto begun = wait_clock::now();
    const auto deadline =
      begun + std::min<milliseconds>(options.start_timeout, lane_timeout);
    std::erase_if(lane_ends, [&](const auto& x) {
      return x.first.second == it.life->incarnation
             && std::get<0>(x.first.first) < of.view_id;
    });
    for (const auto& peer : of.members)
      if (peer.task < it.life->task)
        dial_streams(it, of.view_id, peer, deadline);
    std::vector<peer_lanes> lanes;
    for (const auto& peer : of.members)
      lanes.push_back(peer.task == it.life->task
                        ? peer_lanes{}
                        : open_lane(it, of, peer, begun, deadline));
    return lanes;
  }

  static void add_streams(peer_table& peers, std::uint64_t view_id,
                          std::uint32_t task, std::uint64_t incarnation) {
    peers.update([&] {
      for (const auto* purpose : lane_purposes)
        peers.streams.add({view_id, task, incarnation, purpose}, nullptr);
    });
  }

  void dial_streams(process& it, std::uint64_t view_id,
                    const membership::member& peer,
                    wait_clock::time_point deadline) {
    const auto is_done = std::make_shared<bool>(false);
    const auto own_task = it.life->task, task = peer.task;
    const auto fail = [is_done, peers = it.life->peers, view_id,
                       task](const std::string& why) {
      if (!std::exchange(*is_done, true))
        peers->update([&] { peers->streams.note_failure(view_id, task, why); });
    };
    at(std::chrono::ceil<milliseconds>(deadline - wait_clock::now()),
       [fail, name = names[task]] { fail("could not connect to " + name); });
    if (blocked.contains(task))
      return;
    net.deliver(
      own_task, task, [this, &it, own_task, task, view_id, fail, is_done] {
        auto& acceptor = process_of(task);
        const auto refusal =
          acceptor.life->phase == run_phase::ended
            ? names[task] + " has left"
            : stream_refusal(acceptor.life->peers->view, it.request, view_id,
                             names, task);
        if (!refusal.empty())
          return net.deliver(task, own_task,
                             [fail, refusal] { fail(refusal); });
        const auto a = it.life->incarnation, b = acceptor.life->incarnation;
        auto ends = net.make_lanes(own_task, task);
        lane_ends[{key_of(view_id, a, b), a}] = std::move(ends.first);
        lane_ends[{key_of(view_id, a, b), b}] = std::move(ends.second);
        add_streams(*acceptor.life->peers, view_id, own_task, a);
        net.deliver(task, own_task, [&it, view_id, task, b, is_done] {
          if (!std::exchange(*is_done, true))
            add_streams(*it.life->peers, view_id, task, b);
        });
      });
  }

  /// As `cluster::impl::open_lane`.
  peer_lanes open_lane(process& it, const membership::view& of,
                       const membership::member& peer,
                       wait_clock::time_point begun,
                       wait_clock::time_point deadline) {
    auto& peers = *it.life->peers;
    const auto view_id = of.view_id;
    std::unique_lock hold{peers.lock};
    const auto all_open = [&] { return peers.streams.has_all(view_id, peer); };
    const auto is_outdated = [&] {
      return it.has_started
             && (peers.stop.requested || peers.stop.end_of_runs
                 || peers.no_next_view || peers.view.view_id != view_id);
    };
    const auto has_failed = [&] {
      return !peers.streams.failure(view_id).empty();
    };
    peers.wait(hold, deadline, [&] {
      return all_open() || peers.failed || is_outdated()
             || (it.has_started && has_failed());
    });
    if (peers.failed)
      throw to_job_error(*peers.failed, {.names = names});
    if (!all_open()) {
      const bool is_early =
        is_outdated() && wait_clock::now() - begun < min_lane_time;
      throw lane_failure{
        ec::stalled, names[peer.task] + " did not open its lanes",
        is_early ? std::vector<std::uint32_t>{}
                 : members_without_streams(peers, of, peer.task)};
    }
    peers.streams.take_all(view_id, peer);
    const auto own = it.life->incarnation;
    auto taken =
      lane_ends.extract({key_of(view_id, own, peer.incarnation), own});
    if (taken.empty())
      throw lane_failure{ec::peer_lost,
                         "the lanes to " + names[peer.task] + " have ended",
                         {peer.task}};
    return std::move(taken.mapped());
  }

  // -- the main loop ----------------------------------------------------------

  bool run(const std::function<void()>& between, caf::timespan limit) {
    const wait_clock::replacement clock{time};
    for (;;) {
      make_due_calls();
      if (between)
        between();
      bool is_running = false;
      for (std::size_t i = 0; i < processes.size(); ++i) {
        auto& it = *processes[i];
        if (it.code->done())
          continue;
        is_running = true;
        if (it.life->is_stopped || !it.waits->is_due())
          continue;
        it.code->resume();
        attribute(it.life->task);
        if (it.code->done())
          finish(it);
      }
      for (auto& x : processes)
        note_view(*x);
      if (!is_running)
        return true;
      if (sim.elapsed() > limit || !sim.advance_once())
        return false;
    }
  }

  void note_view(process& it) {
    const auto& view = it.life->peers->view;
    auto& seen = it.life->views;
    if (view.view_id == 0
        || (!seen.empty() && seen.back().view_id == view.view_id))
      return;
    seen.push_back(view);
    it.life->view_times.push_back(sim.elapsed());
    it.life->last_sent.reset();
  }

  /// A thread that waits may see each state of the table. In the simulator, the
  /// program does not run during a message, so it does not see all of them.
  void note_giving_up(process& it) {
    const auto& peers = *it.life->peers;
    if (peers.no_next_view && !it.gave_up_at)
      it.gave_up_at = sim.elapsed();
    if (peers.no_next_view || !it.gave_up_at)
      return;
    it.life->gave_up_too_early |= *it.gave_up_at == sim.elapsed();
    it.gave_up_at.reset();
  }

  /// Makes a call between two messages, after a delay.
  void at(caf::timespan delay, std::function<void()> call) {
    calls.emplace(sim.elapsed() + delay, std::move(call));
    net.call_later(delay, [] {}); // lets the clock stop at that time
  }

  void make_due_calls() {
    while (!calls.empty() && calls.begin()->first <= sim.elapsed()) {
      const auto call = std::move(calls.begin()->second);
      calls.erase(calls.begin());
      call();
    }
  }

  /// The actors that were spawned since the last call belong to a task.
  void attribute(std::uint32_t task) {
    owners.resize(sim.sys.latest_actor_id() + 1, no_owner);
    for (auto id = owners.size(); id-- > 0 && id > attributed;)
      owners[id] = task;
    attributed = owners.size() - 1;
  }

  void update_hold() {
    std::vector<bool> stopped(names.size());
    bool any = false;
    for (std::uint32_t p = 0; p < names.size(); ++p)
      any |= stopped[p] = process_of(p).life->is_stopped;
    if (!any)
      return sim.hold({});
    sim.hold([this, stopped](caf::actor_id id) {
      return id < owners.size() && owners[id] != no_owner
             && stopped[owners[id]];
    });
  }

  void on_frame(std::uint32_t task, const net::frame& frame) {
    if (frame.channel != view_change_channel)
      return;
    view_change::message message;
    if (net::decode(frame.payload, message))
      return;
    ++view_messages;
    process_of(task).life->last_sent = message.kind;
  }

  // -- faults -----------------------------------------------------------------

  void kill(process& it, bool is_noticed) {
    auto& life = *it.life;
    if (it.has_ended)
      return;
    go_on(it);
    it.has_ended = true;
    // The kernel closes the sockets of a process before it has ended.
    const auto exit_after =
      milliseconds{is_noticed ? sim.draw() % (max_end_delay_ms + 1) : 0};
    if (exit_after > 0ms)
      at(exit_after, [exited = it.has_exited] { *exited = true; });
    else
      *it.has_exited = true;
    if (life.state != process_life::fate::ended)
      life.state = process_life::fate::killed;
    if (!life.ended_at)
      life.ended_at = sim.elapsed();
    life.phase = run_phase::ended;
    net.listen(life.task, {}, {});
    if (net.is_disconnected(life.task))
      net.restart(life.task); // it was partitioned
    net.disconnect(life.task, is_noticed ? net::close_reason::closed
                                         : net::close_reason::timed_out);
    it.waits->end();
    caf::anon_send_exit(it.membership, caf::exit_reason::kill);
    for (const auto& who : it.roles)
      if (const auto role = caf::actor_cast<caf::actor>(who))
        caf::anon_send_exit(role, caf::exit_reason::kill);
    run_roles_of(life.task);
    end_program(it);
    run_roles_of(life.task);
    std::erase_if(lane_ends, [&](const auto& x) {
      return x.first.second == life.incarnation;
    });
    first_lanes.erase(life.number);
  }

  /// Ends the program of a process that was killed: all of its waits end, and
  /// all of its deadlines have passed. An exception cannot end it, because it
  /// may wait in a destructor.
  void end_program(process& it) {
    if (it.code->done())
      return;
    const wait_clock::replacement clock{time};
    time.begin_end();
    it.code->resume();
    time.end_end();
    attribute(it.life->task);
  }

  /// Lets the roles of a process that was killed end. Nothing that they send
  /// arrives.
  void run_roles_of(std::uint32_t task) {
    sim.sched.run_jobs_filtered([&](caf::resumable* x) {
      const auto* const it = dynamic_cast<caf::abstract_actor*>(x);
      return it && it->id() < owners.size() && owners[it->id()] == task;
    });
  }

  void stop(process& it) {
    if (it.has_ended || it.life->is_stopped || it.code->done())
      return;
    it.life->is_stopped = true;
    net.pause(it.life->task);
    update_hold();
  }

  void go_on(process& it) {
    if (!std::exchange(it.life->is_stopped, false))
      return;
    update_hold();
    net.resume(it.life->task);
  }

  static constexpr auto no_owner = ~std::uint32_t{0};

  simulator& sim;
  const elastic_job_options options;
  const program fn;
  fault_injector* const faults;
  virtual_time time;
  std::vector<std::string> names; ///< By task.
  simulated_network net;
  std::vector<std::unique_ptr<process_life>> lives;
  /// Lanes of the first view, by number of the life.
  std::map<std::uint64_t, std::vector<peer_lanes>> first_lanes;
  /// Lanes that were accepted and that the process with this incarnation has
  /// not taken.
  std::map<std::pair<lane_key, std::uint64_t>, peer_lanes> lane_ends;
  std::multimap<caf::timespan, std::function<void()>> calls;
  std::vector<chief_record> chiefs;
  std::vector<std::string> membership_errors;
  std::uint64_t view_messages = 0, launcher_kills = 0, survivors_named = 0;
  bool is_split = false;           ///< `elastic_job::split` was called.
  std::set<std::uint32_t> blocked; ///< Tasks, see `elastic_job::block`.
  /// By id of an actor: its task.
  std::vector<std::uint32_t> owners;
  std::size_t attributed = 0;
  std::map<std::uint32_t, std::size_t> current; ///< By task: its last life.
  /// By life. Declared last, because they use all other members.
  std::vector<std::unique_ptr<process>> processes;
};

elastic_job::elastic_job(simulator& sim, const elastic_job_options& options,
                         program fn, fault_injector* faults)
  : impl_{std::make_unique<impl>(sim, options, std::move(fn), faults)} {}

elastic_job::~elastic_job() = default;

bool elastic_job::run(const std::function<void()>& between,
                      std::chrono::seconds limit) {
  return impl_->run(between, impl_->sim.elapsed() + limit);
}

void elastic_job::kill(std::uint32_t task, bool is_noticed) {
  impl_->kill(impl_->process_of(task), is_noticed);
}

void elastic_job::stop(std::uint32_t task) {
  impl_->stop(impl_->process_of(task));
}

void elastic_job::go_on(std::uint32_t task) {
  impl_->go_on(impl_->process_of(task));
}

void elastic_job::partition(std::uint32_t task) {
  auto& it = impl_->process_of(task);
  if (it.has_ended)
    return;
  it.life->state = process_life::fate::partitioned;
  impl_->net.disconnect(task, net::close_reason::timed_out);
}

void elastic_job::split(const std::set<std::uint32_t>& tasks) {
  impl_->is_split = true;
  for (const auto task : tasks)
    for (std::uint32_t other = 0; other < count(); ++other)
      if (!tasks.contains(other))
        impl_->net.separate(task, other);
}

void elastic_job::cut(std::uint32_t task, std::uint32_t peer) {
  impl_->net.cut(task, peer);
}

void elastic_job::block(std::uint32_t task) {
  impl_->blocked.insert(task);
}

void elastic_job::start_again(std::uint32_t task) {
  if (!impl_->process_of(task).has_ended)
    return;
  *impl_->process_of(task).has_exited = true;
  impl_->net.restart(task);
  const bool has_begun = std::ranges::any_of(
    impl_->processes, [](const auto& x) { return x->has_started; });
  impl_->start(task, has_begun);
}

void elastic_job::pause(process_life& of, milliseconds duration) {
  if (duration <= 0ms)
    return;
  impl_->at(duration, [] {}); // the clock stops at that time
  of.in_user_code = true;
  std::unique_lock hold{of.peers->lock};
  of.peers->wait(hold, wait_clock::now() + duration, [] { return false; });
  of.in_user_code = false;
}

void elastic_job::after(milliseconds delay, std::function<void()> call) {
  impl_->at(delay, std::move(call));
}

std::uint32_t elastic_job::count() const {
  return static_cast<std::uint32_t>(impl_->names.size());
}

process_life& elastic_job::life_of(std::uint32_t task) {
  return *impl_->process_of(task).life;
}

const std::vector<std::unique_ptr<process_life>>& elastic_job::lives() const {
  return impl_->lives;
}

const std::vector<elastic_job::chief_record>& elastic_job::chiefs() const {
  return impl_->chiefs;
}

const std::vector<std::string>& elastic_job::membership_errors() const {
  return impl_->membership_errors;
}

std::uint64_t elastic_job::view_messages() const {
  return impl_->view_messages;
}

std::uint64_t elastic_job::survivors_named() const {
  return impl_->survivors_named;
}

std::uint64_t elastic_job::launcher_kills() const {
  return impl_->launcher_kills;
}

} // namespace troupe::simulation

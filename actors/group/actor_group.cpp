#include "troupe/actors/group/actor_group.hpp"

#include "troupe/actors/group/chief_status_source.hpp"
#include "troupe/actors/group/role_spawner.hpp"
#include "troupe/actors/group/step_gate.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <optional>
#include <thread>

namespace troupe {

namespace {

using namespace std::chrono_literals;

/// Generation that ends the work of a replica. A replica that is configured
/// with it leaves its step and runs no more steps.
constexpr auto last_generation = std::numeric_limits<std::uint64_t>::max();

/// Returns the options with each automatic value replaced by a concrete one.
replica_group_options resolve_options(replica_group_options options,
                                      const group_environment& environment) {
  const auto cores = std::max(std::thread::hardware_concurrency(), 1u);
  using reduction = replica_group_options::reducer_kind;
  const auto placement = placement_of(environment, options);
  const bool several_processes = placement.job.processes() > 1;
  if (options.step_window == 0)
    options.step_window =
      several_processes ? multi_process_step_window : default_step_window;
  if (several_processes) // the lane backend computes the sums
    options.reducers = reduction::replica_threads;
  if (options.replicas == 1)
    options.reducers = reduction::replica_threads; // there is nothing to add
  else if (options.reducers == reduction::automatic)
    options.reducers =
      std::uint64_t{options.replicas} * std::uint64_t(options.threads) >= cores
        ? reduction::replica_threads
        : reduction::reducer_actors;
  if (environment.via_mailbox
      || environment.replica_spawn_policy == spawn_policy::scheduled)
    options.spin_timeout = 0us;
  else if (options.spin_timeout < 0us)
    options.spin_timeout = placement.count() <= cores ? 50us : 0us;
  return options;
}

class actor_group final : public replica_group {
public:
  actor_group(const group_environment& environment,
              const replica_group_options& options)
    : options_{options},
      system_{environment.system},
      faults_{environment.faults},
      placement_{placement_of(environment, options)},
      completions_{std::make_shared<completion_queue>(
        environment.caller_wait_strategy
          ? environment.caller_wait_strategy
          : std::make_shared<blocking_wait_strategy>(),
        named_processes{environment.job_world ? environment.job_world->names
                                              : named_processes{}.names,
                        placement_.job},
        options.recorder)},
      roles_{spawn_roles(environment, options_, completions_, registry_)} {}

  ~actor_group() override {
    const auto roles = std::exchange(roles_.roles, {});
    // the first role is the chief or the local agent
    for (const auto& role : roles)
      caf::anon_send_exit(caf::actor_cast<caf::actor>(role),
                          caf::exit_reason::user_shutdown);
    roles_.run_service = nullptr;
    roles_.replicas.clear(); // these handles must not keep the roles alive
    completions_->wait_for_terminations(roles.size(), 5s);
    end_proxies(roles.size());
  }

  const local_placement& replica_placement() const override {
    return placement_;
  }
  std::string process_name(std::uint32_t process) const override {
    const auto& names = completions_->processes().names;
    return names.size() == placement_.job.processes()
             ? names.at(process)
             : replica_group::process_name(process);
  }
  std::uint64_t max_steps_ahead() const override {
    return options_.step_window;
  }

  std::uint64_t run(const run_request& request) override {
    const auto number =
      completions_->begin_run(request.call, request.first_step);
    if (faults_)
      faults_->steps()->begin_run(
        request.first_step,
        step_commit::end_step(request.first_step, request.steps),
        user_step_of(request.call, request.first_step, request.first_step));
    const auto gate =
      std::make_shared<step_gate>(options_.replicas, completions_);
    const step_function guarded = [gate, fn = request.step](step_context& at) {
      const step_gate::holder inside{*gate, at.replica};
      fn(at);
    };
    const scoped_registration registration{
      *registry_, "run " + std::to_string(number),
      std::make_shared<const step_function>(guarded)};
    caf::anon_send(roles_.run_service,
                   run_barrier::join{
                     placement_.process, number, request.first_step,
                     request.steps,
                     std::uint64_t(std::max(request.join_timeout, 0ms).count()),
                     request.call},
                   registration.ref);
    try {
      return wait_for_run(request, number);
    } catch (const job_error& e) {
      auto left = drain_step_gate(*gate);
      if (left.empty())
        throw;
      throw with_inside(e, std::move(left));
    } catch (...) {
      drain_step_gate(*gate);
      throw;
    }
  }

  /// Sends one message for each run, however often the caller calls it: the
  /// messages must not fill the connection to the chief.
  void stop() override {
    const auto run = completions_->active_run();
    if (run && stopped_run_.exchange(*run) != *run)
      caf::anon_send(roles_.run_service,
                     run_barrier::stop{placement_.process, *run});
  }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    const auto number = completions_->begin_tasks(placement_.replicas());
    const auto gate =
      std::make_shared<step_gate>(options_.replicas, completions_);
    const std::function<void(std::uint32_t)> guarded = [gate,
                                                        fn](std::uint32_t r) {
      const step_gate::holder inside{*gate, r};
      fn(r);
    };
    const auto shared =
      std::make_shared<const std::function<void(std::uint32_t)>>(guarded);
    for (const auto& replica : roles_.replicas)
      caf::anon_send(replica, replica_task{shared, completions_, number});
    try {
      completions_->wait_for_tasks(options_.step_timeout);
    } catch (const job_error& e) {
      auto left = gate->close(gate_timeout());
      if (left.empty())
        throw;
      throw with_inside(e, std::move(left));
    }
  }

  std::shared_ptr<job_status_source> status_source() const override {
    return std::make_shared<chief_status_source>(
      system_, caf::actor_cast<caf::actor_addr>(roles_.run_service),
      completions_->processes());
  }

  std::function<void(const failure_report&)> run_terminator() override {
    return [completions = completions_](const failure_report& why) {
      completions->on_group_terminated(why);
    };
  }

private:
  /// Registers a step function under its name while this object exists.
  struct scoped_registration {
    scoped_registration(step_registry& registry, std::string name,
                        std::shared_ptr<const step_function> fn)
      : registry{registry}, ref{fn, std::move(name)} {
      registry.add(ref.name, std::move(fn));
    }
    ~scoped_registration() { registry.remove(ref.name); }
    scoped_registration(const scoped_registration&) = delete;
    scoped_registration& operator=(const scoped_registration&) = delete;

    step_registry& registry;
    step_function_ref ref;
  };

  /// Waits until all proxies and skeletons have terminated. A skeleton
  /// terminates after its role and notifies the proxy at the other end. A proxy
  /// terminates when its last handle is released and it has handled all earlier
  /// messages.
  /// @param ended number of roles that the caller has already waited for.
  void end_proxies(std::size_t ended) {
    ended += roles_.proxies.size() + roles_.skeletons.size();
    for (const auto* actors : {&roles_.proxies, &roles_.skeletons})
      for (const auto& actor : *actors)
        actor->attach_functor([completions = completions_] {
          completions->on_role_terminated(false);
        });
    roles_.proxies.clear();
    if (!completions_->wait_for_terminations(ended, 5s))
      for (const auto& actor : roles_.skeletons)
        caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    release_caf_logger();
  }

  /// Returns the error with the replicas that are still inside the caller's
  /// function.
  job_error with_inside(const job_error& error,
                        std::vector<std::uint32_t> inside) const {
    auto report = error.report();
    report.inside = std::move(inside);
    return to_job_error(std::move(report), completions_->processes());
  }

  /// Time that a failed `run` or `for_each` waits for replicas to leave the
  /// caller's function.
  std::chrono::milliseconds gate_timeout() const {
    return std::max<std::chrono::milliseconds>(2 * options_.step_timeout, 1s);
  }

  /// Closes the gate and waits until no replica is inside the step function.
  /// @returns the replicas that are still inside after `gate_timeout`.
  std::vector<std::uint32_t> drain_step_gate(step_gate& gate) {
    // without a chief, the group itself makes the replicas leave their steps
    if (completions_->group_terminated())
      for (const auto& replica : roles_.replicas)
        caf::anon_send(replica, step_commit::configure{last_generation});
    return gate.close(gate_timeout());
  }

  std::uint64_t wait_for_run(const run_request& request, std::uint64_t number) {
    // The chief aborts a run that makes no progress. After all processes have
    // joined, the abort takes the step timeout, a probe and the end of the
    // current steps. `timeout` is longer: it elapses only if the chief does not
    // respond.
    const auto timeout =
      std::max(request.join_timeout, 0ms) + 3 * options_.step_timeout + 5s;
    std::exception_ptr thrown; // by on_commit; the granted steps still run
    const auto ack_interval = step_commit::grant_batch(options_.step_window);
    const auto deliver = [&](const commit_record& record, bool more) {
      try {
        if (request.on_commit && !thrown)
          request.on_commit(record);
      } catch (...) {
        thrown = std::current_exception();
        stop();
      }
      if (!more || (record.step + 1) % ack_interval == 0)
        caf::anon_send(roles_.run_service,
                       commit_ack{placement_.process, number, record.step + 1});
    };
    std::optional<std::uint64_t> next;
    try {
      next = completions_->wait_for_run(deliver, timeout);
    } catch (const job_error&) {
      if (!thrown)
        throw;
    }
    if (thrown)
      std::rethrow_exception(thrown);
    if (!next)
      throw to_job_error(
        {.kind = failure_kind::chief_silent,
         .code = ec::stalled,
         .run = number,
         .timeout_ms = static_cast<std::uint64_t>(timeout.count())},
        completions_->processes());
    return *next;
  }

  const replica_group_options options_;
  caf::actor_system& system_;
  const std::shared_ptr<fault_injector> faults_; ///< Null: no faults.
  const local_placement placement_;
  std::shared_ptr<completion_queue> completions_;
  std::shared_ptr<step_registry> registry_ = std::make_shared<step_registry>();
  spawned_roles roles_;
  std::atomic<std::uint64_t> stopped_run_ = 0; ///< Last run stopped from here.
};

} // namespace

std::unique_ptr<replica_group>
make_replica_group(const group_environment& environment,
                   const replica_group_options& options) {
  check(options);
  return std::make_unique<actor_group>(environment,
                                       resolve_options(options, environment));
}

std::unique_ptr<replica_group>
make_replica_group(runtime& actor_runtime, const replica_group_options& options,
                   std::shared_ptr<nccl_ranks> ranks) {
  return make_replica_group(
    {.system = actor_runtime.system(), .ranks = std::move(ranks)}, options);
}

} // namespace troupe

#include "troupe/simulation/simulated_processes.hpp"

#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/group/world.hpp"
#include "troupe/actors/membership/actor/spawn_membership.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/simulation/simulated_group.hpp"
#include "troupe/simulation/simulated_wait.hpp"
#include "troupe/tensors/context.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <stdexcept>

namespace troupe::simulation {

namespace {

/// Stack size of a fiber that runs a program, possibly a whole training.
constexpr std::size_t stack_bytes = std::size_t{8} << 20;

/// Applies the message faults of a plan to packets. When the delay of a packet
/// ends, the injector wakes the sending process, which then sends the packet.
class packet_fault_injector final : public fault_injector {
public:
  packet_fault_injector(random_fault_injector& injector, simulated_network& net,
                        std::uint32_t process)
    : fault_injector{injector.steps()},
      injector_{injector},
      net_{net},
      process_{process} {}

  injected_fault on_send(const role_id& sender, const role_id& receiver,
                         message_kind kind, std::uint64_t generation,
                         std::uint64_t step) override {
    const auto out =
      injector_.on_send(sender, receiver, kind, generation, step);
    if (out.delay > std::chrono::nanoseconds{0})
      net_.notify_later(process_, out.delay);
    return out;
  }

private:
  random_fault_injector& injector_;
  simulated_network& net_;
  std::uint32_t process_;
};

void check(const replica_group_options& options, const process_layout& layout) {
  troupe::check(options);
  const auto& lists = layout.replicas_by_process;
  if (layout.processes < 1
      || (lists.empty() && layout.processes > options.replicas))
    throw std::invalid_argument(
      std::to_string(layout.processes) + " processes for "
      + std::to_string(options.replicas) + " replicas: give 1 to "
      + std::to_string(options.replicas)
      + ", or replicas_by_process for processes without a replica");
  std::size_t placed = 0;
  for (const auto& ids : lists)
    placed += ids.size();
  if (!lists.empty()
      && (placed != options.replicas || lists.size() != layout.processes))
    throw std::invalid_argument(
      "replicas_by_process places " + std::to_string(placed) + " replicas on "
      + std::to_string(layout.replicas_by_process.size())
      + " processes; give it all " + std::to_string(options.replicas) + " of "
      + std::to_string(layout.processes));
}

placement placement_of(const process_layout& layout, std::uint32_t replicas) {
  if (!layout.replicas_by_process.empty())
    return placement{layout.replicas_by_process};
  std::vector<std::uint32_t> counts;
  for (std::uint32_t p = 0; p < layout.processes; ++p)
    counts.push_back((p + 1) * replicas / layout.processes
                     - p * replicas / layout.processes);
  return placement::contiguous(counts);
}

} // namespace

struct simulated_processes::impl {
  impl(simulator& sim, const replica_group_options& options,
       const process_layout& layout, random_fault_injector* faults)
    : sim{sim},
      faults{faults},
      waits{std::make_shared<simulated_wait_strategy>(sim, faults)},
      net{sim, layout.processes, layout.network} {
    for (std::uint32_t p = 0; p < layout.processes; ++p)
      names.push_back("process " + std::to_string(p));
    job_placement = placement_of(layout, options.replicas);
    start_job();
    if (faults)
      faults->set_placement(job_placement);
    waits->set_network(&net);
    for (std::uint32_t p = 0; p < layout.processes; ++p)
      groups.push_back(make_group(p, options));
  }

  ~impl() {
    groups.clear();
    for (const auto& x : members)
      caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
  }

  /// Lets the processes join the job and begin it.
  /// @errors throws job_error if the job cannot begin.
  void start_job() {
    const auto count = static_cast<std::uint32_t>(names.size());
    for (std::uint32_t p = 0; p < count; ++p)
      join(p);
    const auto wait_for = [this](auto done) {
      sim.run_until([&] {
        return std::ranges::all_of(
          tables, [&](const auto& x) { return x->failed || done(*x); });
      });
      for (const auto& x : tables)
        if (x->failed)
          throw to_job_error(*x->failed, {.names = names});
    };
    wait_for([](const peer_table& x) { return x.view.view_id > 0; });
    for (const auto& x : members)
      caf::anon_send(x, membership_event::lanes_open{});
    wait_for([](const peer_table& x) { return x.started; });
  }

  /// Spawns the membership actor of a process.
  void join(std::uint32_t process) {
    membership_options settings;
    settings.processes.names = settings.processes.addresses = names;
    settings.processes.job = "job";
    settings.processes.self = process;
    settings.self = {process,
                     sim.draw(),
                     names[process],
                     1,
                     std::uint32_t(job_placement.replicas_of(process).size()),
                     {}};
    settings.peers = std::make_shared<peer_table>(names.size());
    const auto hello =
      make_join_hello("job", names[process], "control", settings.self);
    settings.dial_leader =
      [this, process,
       hello](std::chrono::milliseconds timeout,
              std::function<void(net::endpoint::dial_result &&)> on_done) {
        net.dial(process, 0, hello, timeout, std::move(on_done));
      };
    settings.dial_peer = [this, process,
                          hello](const membership::member& peer,
                                 std::chrono::milliseconds timeout,
                                 membership_options::dial_callback on_done) {
      net.dial(process, peer.task, hello, timeout, std::move(on_done));
    };
    tables.push_back(settings.peers);
    members.push_back(spawn_membership(sim.sys, settings));
    sim.own(members.back());
    net.listen(
      process, hello,
      [actor = members.back().address()](
        const net::hello& from, std::shared_ptr<net::connection> connection) {
        membership::join_request request;
        const auto it = caf::actor_cast<membership_actor>(actor);
        if (it && !read_join_hello(from, request))
          caf::anon_send(
            it, membership_event::accepted{std::move(connection), request});
      });
  }

  std::unique_ptr<replica_group> make_group(std::uint32_t process,
                                            replica_group_options options) {
    auto environment = simulated_environment(sim, waits, faults);
    const auto replicas = std::make_shared<std::vector<caf::actor_addr>>();
    environment.on_spawn = [waits = waits, replicas](const role_id& who,
                                                     const caf::actor& it) {
      waits->register_role(who, it);
      if (who.role == role_id::kind::replica)
        replicas->push_back(it.address());
    };
    const auto wake = [replicas] {
      for (const auto& who : *replicas)
        if (const auto it = caf::actor_cast<caf::actor>(who))
          caf::anon_send(it, atom::wake_v);
    };
    net.on_lane_event(process, wake);
    environment.job_world = make_world(process, wake);
    options.spin_timeout = std::chrono::microseconds{0};
    return troupe::make_replica_group(environment, options);
  }

  std::shared_ptr<world> make_world(std::uint32_t process,
                                    const std::function<void()>& wake) {
    auto out = std::make_shared<world>();
    out->names = names;
    out->placement = {job_placement, process};
    out->view_id = tables[process]->view.view_id;
    const auto process_count = out->processes();
    out->connections.resize(process_count);
    std::vector<peer_lanes> lanes(process_count);
    for (std::uint32_t p = 0; p < process_count; ++p)
      if (p != process)
        lanes[p] = net.lanes(process, p);
    for (std::uint32_t p = 0; p < process_count; ++p)
      if (p != process && (p == 0 || process == 0))
        out->connections[p] = tables[process]->entries[p].connection;
    lane_backend_options backend_options;
    backend_options.wake = wake;
    backend_options.now = [&in = sim] {
      return std::chrono::steady_clock::time_point{in.elapsed()};
    };
    if (faults)
      backend_options.faults =
        std::make_shared<packet_fault_injector>(*faults, net, process);
    if (out->placement.count() > 0)
      out->backend = std::make_shared<lane_backend>(
        out->placement, std::move(lanes), backend_options);
    return out;
  }

  simulator& sim;
  random_fault_injector* faults;
  std::shared_ptr<simulated_wait_strategy> waits;
  simulated_network net;
  std::vector<std::string> names;
  placement job_placement;
  std::vector<std::shared_ptr<peer_table>> tables; ///< By process.
  std::vector<membership_actor> members;           ///< By process.
  /// Declared last, because the groups use all other members.
  std::vector<std::unique_ptr<replica_group>> groups;
};

simulated_processes::simulated_processes(simulator& sim,
                                         const replica_group_options& options,
                                         const process_layout& layout,
                                         random_fault_injector* faults) {
  check(options, layout);
  impl_ = std::make_unique<impl>(sim, options, layout, faults);
}

simulated_processes::~simulated_processes() = default;

std::uint32_t simulated_processes::count() const {
  return static_cast<std::uint32_t>(impl_->groups.size());
}

replica_group& simulated_processes::group_of(std::uint32_t process) {
  return *impl_->groups.at(process);
}

simulated_network& simulated_processes::network() {
  return impl_->net;
}

std::vector<std::exception_ptr> simulated_processes::run_all(
  const std::function<void(std::uint32_t)>& program) {
  std::vector<std::unique_ptr<fiber>> fibers;
  for (std::uint32_t p = 0; p < count(); ++p)
    fibers.push_back(std::make_unique<fiber>(
      [&program, p] { program(p); }, p == 0 ? &current_context() : nullptr,
      stack_bytes));
  for (bool running = true; running;) {
    running = false;
    for (const auto& x : fibers)
      if (!x->done()) {
        x->resume();
        running |= !x->done();
      }
    impl_->waits->abandon_waits(running && !impl_->waits->step());
  }
  impl_->waits->abandon_waits(false);
  std::vector<std::exception_ptr> out;
  for (const auto& x : fibers)
    out.push_back(x->error());
  return out;
}

// -- one group over all processes ---------------------------------------------

namespace {

class combined_group final : public replica_group {
public:
  combined_group(simulator& sim, const replica_group_options& options,
                 const process_layout& layout, random_fault_injector* faults)
    : processes_{sim, options, layout, faults},
      placement_{placement{options.replicas}} {}

  /// The caller sees all replicas as replicas of one process.
  const local_placement& replica_placement() const override {
    return placement_;
  }
  std::uint64_t max_steps_ahead() const override {
    return leader().max_steps_ahead();
  }
  void stop() override { leader().stop(); }

  std::uint64_t run(const run_request& request) override {
    std::uint64_t next = 0;
    const auto errors = processes_.run_all([&](std::uint32_t p) {
      auto mine = request;
      if (p > 0)
        mine.on_commit = {}; // the leader's `on_commit` receives all commits
      const auto end = processes_.group_of(p).run(mine);
      if (p == 0)
        next = end;
    });
    for (const bool cut : {false, true})
      for (std::uint32_t p = 0; p < errors.size(); ++p)
        if (errors[p] && processes_.network().is_disconnected(p) == cut)
          std::rethrow_exception(errors[p]);
    return next;
  }

  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    for (std::uint32_t p = 0; p < processes_.count(); ++p)
      processes_.group_of(p).for_each(fn);
  }

private:
  replica_group& leader() const { return processes_.group_of(0); }

  mutable simulated_processes processes_;
  local_placement placement_;
};

} // namespace

std::unique_ptr<replica_group>
make_replica_group(simulator& sim, const replica_group_options& options,
                   const process_layout& layout,
                   random_fault_injector* faults) {
  if (layout.processes == 1)
    return make_replica_group(sim, options, faults);
  return std::make_unique<combined_group>(sim, options, layout, faults);
}

} // namespace troupe::simulation

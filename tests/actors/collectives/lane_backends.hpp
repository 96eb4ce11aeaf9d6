#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/actors/collectives/lane_replica_backend.hpp"
#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/core/shared_arena.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/replica/replica.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/actors/group/groups.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/support/placements.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <functional>
#include <map>
#include <sys/socket.h>

// Lane backends of several simulated processes, all within the test process.

namespace troupe::testing {

/// Element p is the first replica of process p. The last element is the number
/// of replicas.
using firsts = std::vector<std::uint32_t>;

struct lane_backends {
  lane_backends(const firsts& first, const std::string& kind,
                const lane_backend_options& options = {})
    : lane_backends{placement_of(first), kind, options} {}

  lane_backends(const placement& job, const std::string& kind,
                const lane_backend_options& options = {}) {
    const auto process_count = job.processes();
    std::vector<std::vector<peer_lanes>> lanes(process_count);
    for (auto& to : lanes)
      to.resize(process_count);
    for (std::uint32_t p = 0; p < process_count; ++p)
      for (std::uint32_t q = p + 1; q < process_count; ++q) {
        const bool shared = kind == "shm" || kind == "zero-copy";
        const net::testing::shm_contexts contexts;
        if (kind == "zero-copy")
          enable_zero_copy(*contexts.left), enable_zero_copy(*contexts.right);
        const auto make = [&](std::size_t queue) {
          return shared ? net::testing::shm_lanes_over(contexts, queue)
                 : kind == "stream" ? stream_lanes(p, q)
                                    : net::testing::make_lanes(kind);
        };
        auto contributions = make(0), results = make(1);
        lanes[p][q] = net::testing::list_of(std::move(contributions.left),
                                            std::move(results.left));
        lanes[q][p] = net::testing::list_of(std::move(contributions.right),
                                            std::move(results.right));
      }
    for (std::uint32_t p = 0; p < process_count; ++p)
      by_process.push_back(std::make_shared<lane_backend>(
        local_placement{job, p}, std::move(lanes[p]), options));
  }

  /// Lets a lane send without copies. The simulated processes share one arena,
  /// because all of them are in this process.
  static void enable_zero_copy(net::shm_context& x) {
    x.own_arena = shared_arena();
    x.peer_arena.emplace(x.own_arena->descriptor());
  }

  net::testing::connected_lanes stream_lanes(std::uint32_t p, std::uint32_t q) {
    const auto [left, right] = net::testing::socket_pair();
    sockets.emplace(p, left);
    sockets.emplace(q, right);
    return {std::make_unique<net::stream_lane>(net::wrap_socket(left)),
            std::make_unique<net::stream_lane>(net::wrap_socket(right))};
  }

  /// Closes the lanes of a process, as the end of the process does. No effect
  /// on lanes of another kind than "stream".
  void cut(std::uint32_t process) const {
    const auto [first, last] = sockets.equal_range(process);
    for (auto it = first; it != last; ++it)
      ::shutdown(it->second, SHUT_RDWR);
  }

  /// Indexed by process.
  std::vector<std::shared_ptr<lane_backend>> by_process;
  /// Sockets of "stream" lanes, by process.
  std::multimap<std::uint32_t, int> sockets;
};

/// A chief, and the replica actors of several simulated processes.
struct backend_group {
  /// @param backend_of makes the backend of a replica.
  backend_group(
    const placement& job,
    const std::function<std::shared_ptr<collective_backend>(std::uint32_t)>&
      backend_of,
    std::chrono::milliseconds step_timeout)
    : queue{std::make_shared<completion_queue>(
      std::make_shared<blocking_wait_strategy>(),
      named_processes{process_names(job), job})} {
    const auto replica_count = job.replicas();
    const replica_group_options options{.replicas = replica_count,
                                        .step_timeout = step_timeout,
                                        .spin_timeout = {},
                                        .seed = 42};
    auto& sys = actors.system();
    chief_handle = sys.spawn(
      chief,
      chief_options{.processes = {process_names(job), job},
                    .step_timeout = step_timeout},
      message_sender{role_id{role_id::kind::chief, 0}, nullptr, nullptr});
    watch(chief_handle, true);
    job_roles spawned;
    for (std::uint32_t r = 0; r < replica_count; ++r) {
      const replica_config config{
        .id = r, .options = options, .faults = {}, .backend = backend_of(r)};
      const auto actor = spawn(sys, troupe::spawn_policy::detached, replica,
                               config, chief_handle);
      watch(actor, false);
      spawned.replicas.push_back(actor);
    }
    spawned.clients.resize(job.processes());
    spawned.clients[0].listener = queue;
    processes = job.processes();
    caf::anon_send(chief_handle, std::move(spawned));
    release_caf_logger();
  }

  ~backend_group() {
    for (const auto& who : roles)
      caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                          caf::exit_reason::user_shutdown);
    chief_handle = nullptr;
    queue->wait_for_terminations(roles.size(), std::chrono::seconds{20});
  }

  template <class Handle>
  void watch(const Handle& who, bool leads) {
    const auto it = caf::actor_cast<caf::actor>(who);
    it->attach_functor(
      [queue = queue, leads] { queue->on_role_terminated(leads); });
    roles.push_back(it.address());
  }

  std::uint64_t run(const run_request& request) {
    const auto number = queue->begin_run();
    const step_function_ref fn{
      std::make_shared<const step_function>(request.step), {}};
    for (std::uint32_t p = 0; p < processes; ++p)
      caf::anon_send(
        chief_handle,
        run_barrier::join{p, number, request.first_step, request.steps}, fn);
    const auto acknowledge = [&](const commit_record& record, bool) {
      if (request.on_commit)
        request.on_commit(record);
      for (std::uint32_t p = 0; p < processes; ++p)
        caf::anon_send(chief_handle, commit_ack{p, number, record.step + 1});
    };
    return queue->wait_for_run(acknowledge, std::chrono::seconds{100}).value();
  }

  static std::vector<std::string> process_names(const placement& job) {
    std::vector<std::string> names;
    for (std::uint32_t p = 0; p < job.processes(); ++p)
      names.push_back("process " + std::to_string(p));
    return names;
  }

  static void kill(const caf::actor_addr& who) {
    caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                        caf::exit_reason::kill);
  }

  std::shared_ptr<completion_queue> queue;
  runtime actors;
  chief_actor chief_handle;
  std::uint32_t processes = 1;
  std::vector<caf::actor_addr> roles; ///< The chief is the first.
};

/// The lane backends of a group. They outlive its roles.
struct lane_backends_of_group {
  lane_backends backends;
};

/// A group whose replicas use lane backends.
struct lane_backend_group : lane_backends_of_group, backend_group {
  lane_backend_group(
    const firsts& first, const std::string& kind,
    std::chrono::milliseconds step_timeout = std::chrono::seconds{60},
    std::shared_ptr<fault_injector> faults = {})
    : lane_backend_group{placement_of(first), kind, step_timeout,
                         std::move(faults)} {}

  lane_backend_group(
    const placement& job, const std::string& kind,
    std::chrono::milliseconds step_timeout = std::chrono::seconds{60},
    std::shared_ptr<fault_injector> faults = {})
    : lane_backends_of_group{{job, kind, {.faults = std::move(faults)}}},
      backend_group{job,
                    [&](std::uint32_t replica) {
                      return std::make_shared<lane_replica_backend>(
                        backends.by_process[job.process_of(replica)], replica);
                    },
                    step_timeout} {}
};

} // namespace troupe::testing

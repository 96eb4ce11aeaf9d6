#pragma once

#include "troupe/actors/collectives/lane_backend.hpp"
#include "troupe/actors/collectives/shared_arena.hpp"
#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/replica/replica.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/actors/group/groups.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <map>
#include <sys/socket.h>

// Lane backends of several processes, all within the test process.

namespace troupe::testing {

using firsts = std::vector<std::uint32_t>;

struct planes {
  planes(const firsts& first, const std::string& kind,
         const data_plane_options& options = {}) {
    const auto all = static_cast<std::uint32_t>(first.size() - 1);
    std::vector<std::vector<peer_lanes>> lanes(all);
    for (auto& to : lanes)
      to.resize(all);
    for (std::uint32_t p = 0; p < all; ++p)
      for (std::uint32_t q = p + 1; q < all; ++q) {
        const bool shared = kind == "shm" || kind == "lending";
        const net::testing::shm_grounds grounds;
        if (kind == "lending")
          lend(*grounds.left), lend(*grounds.right);
        const auto make = [&](std::size_t queue) {
          return shared             ? net::testing::lanes_over(grounds, queue)
                 : kind == "stream" ? stream_lanes(p, q)
                                    : net::testing::make_lanes(kind);
        };
        auto parts = make(0), sums = make(1);
        lanes[p][q] = {std::move(parts.left), std::move(sums.left)};
        lanes[q][p] = {std::move(parts.right), std::move(sums.right)};
      }
    for (std::uint32_t p = 0; p < all; ++p)
      of.push_back(std::make_shared<data_plane>(exchange::layout{first, p},
                                                std::move(lanes[p]), options));
  }

  /// Lets a lane send zero-copy. All processes of the test are this process, so
  /// they share one arena.
  static void lend(net::shm_ground& x) {
    x.my_arena = shared_arena();
    x.their_arena.emplace(x.my_arena->descriptor());
  }

  net::testing::lane_pair stream_lanes(std::uint32_t p, std::uint32_t q) {
    const auto [left, right] = net::testing::socket_pair();
    sockets.emplace(p, left);
    sockets.emplace(q, right);
    return {std::make_unique<net::stream_lane>(net::wrap_socket(left)),
            std::make_unique<net::stream_lane>(net::wrap_socket(right))};
  }

  /// Closes the "stream" lanes of a process, as its termination does.
  void cut(std::uint32_t process) const {
    const auto [first, last] = sockets.equal_range(process);
    for (auto it = first; it != last; ++it)
      ::shutdown(it->second, SHUT_RDWR);
  }

  std::vector<std::shared_ptr<data_plane>> of; ///< Indexed by process.
  /// Sockets of "stream" lanes by process.
  std::multimap<std::uint32_t, int> sockets;
};

/// Replica actors of several processes with lane backends, and a chief.
struct plane_stage {
  plane_stage(const firsts& first, const std::string& kind,
              std::chrono::milliseconds patience = std::chrono::seconds{60},
              std::shared_ptr<fault_seam> faults = {})
    : over{first, kind, {.faults = faults}} {
    const auto all = first.back();
    const crew_options options{
      .replicas = all, .patience = patience, .polling = {}, .seed = 42};
    const auto by = std::make_shared<direct_transport>(all, false);
    auto& sys = actors.system();
    lead = sys.spawn(
      chief, chief_options{.replicas = all, .patience = patience, .where = {}},
      outbox{party{party::role::chief, 0}, by, nullptr});
    watch(lead, true);
    cast_ref cast;
    const exchange::layout who{first, 0};
    for (std::uint32_t r = 0; r < all; ++r) {
      replica_wiring wiring{r, options, 1, 0, by, nullptr};
      wiring.plane = over.of[who.process_of(r)];
      const auto it = spawn(sys, troupe::threads::own, replica, wiring, lead);
      watch(it, false);
      by->place({party::role::replica, r}, caf::actor_cast<caf::actor>(it));
      cast.replicas.push_back(it);
    }
    cast.callers.push_back({desk, {}});
    caf::anon_send(lead, std::move(cast));
    forget_logger();
  }

  ~plane_stage() {
    for (const auto& who : roles)
      caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                          caf::exit_reason::user_shutdown);
    lead = nullptr;
    desk->await_ends(roles.size(), std::chrono::seconds{20});
  }

  template <class Handle>
  void watch(const Handle& who, bool leads) {
    const auto it = caf::actor_cast<caf::actor>(who);
    it->attach_functor([desk = desk, leads] { desk->one_ended(leads); });
    roles.push_back(it.address());
  }

  std::uint64_t run(const work& x) {
    const auto number = desk->begin();
    caf::anon_send(lead, muster::join{0, number, x.first_step, x.steps},
                   step_ref{std::make_shared<const step_function>(x.step), {}});
    const auto tell = [&](const commit_record& record, bool) {
      if (x.on_commit)
        x.on_commit(record);
      caf::anon_send(lead, run_heard{0, number, record.step + 1});
    };
    return desk->follow(tell, std::chrono::seconds{100}).value();
  }

  static void kill(const caf::actor_addr& who) {
    caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                        caf::exit_reason::kill);
  }

  std::shared_ptr<work_desk> desk =
    std::make_shared<work_desk>(std::make_shared<sleeping_waiter>());
  planes over;
  runtime actors;
  chief_actor lead;
  std::vector<caf::actor_addr> roles; ///< The chief first.
};

} // namespace troupe::testing

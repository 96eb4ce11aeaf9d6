#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Several members of a cluster in one process. Each member has a runtime, an
// endpoint on a free port, and a thread that runs the member's program.

namespace troupe::testing {

using namespace std::chrono_literals;

struct member {
  std::unique_ptr<runtime> local_runtime = std::make_unique<runtime>();
  std::shared_ptr<service_router> router;
  std::unique_ptr<cluster> joined_cluster;
  std::unique_ptr<replica_group> group;
  std::string problem; ///< Error of joining or of a run. Empty: none.
  std::optional<ec> code;
  failure_report report; ///< Report of that error.

  ~member() {
    group.reset();
    joined_cluster.reset();
    router.reset();
  }

  template <class F>
  void attempt(F&& fn) {
    try {
      fn();
    } catch (const job_error& e) {
      problem = e.what();
      code = e.code;
      report = e.report();
    }
  }
};

inline std::shared_ptr<service_router> make_router() {
  net::endpoint_options config;
  config.listen = net::address{"127.0.0.1", 0};
  config.connection.handshake_timeout = 2s;
  return std::make_shared<service_router>(config);
}

/// Makes a router for a process that dials. A peer rejects the connections of
/// this process until the peer has registered the service "control". The router
/// sets `rejected` at the first rejection.
inline std::shared_ptr<service_router>
make_router_that_reports_rejection(std::promise<void>& rejected) {
  net::endpoint_options config;
  config.listen = net::address{"127.0.0.1", 0};
  config.log = [&rejected, reported = false](net::severity,
                                             const std::string& line) mutable {
    if (!reported && mentions(line, "no service 'control'")) {
      reported = true;
      rejected.set_value();
    }
  };
  return std::make_shared<service_router>(config);
}

struct cluster_fixture {
  explicit cluster_fixture(std::uint32_t processes) : members(processes) {
    for (auto& x : members) {
      x.router = make_router();
      addresses.push_back(x.router->endpoint().advertised_address());
    }
  }

  cluster_options options_of(std::uint32_t task) const {
    cluster_options options;
    options.addresses = addresses;
    for (std::uint32_t p = 0; p < addresses.size(); ++p)
      options.names.push_back((p == 0 ? "chief " : "worker ")
                              + std::to_string(p));
    options.task = task;
    options.replicas = replicas;
    options.start_timeout = start_timeout;
    options.shutdown_timeout = 2s;
    options.router = members[task].router;
    if (adjust_options)
      adjust_options(task, options);
    return options;
  }

  /// Calls a function for the members of these tasks, each on its own thread.
  template <class F>
  void for_each_member(const std::vector<std::uint32_t>& tasks, F&& fn) {
    std::vector<std::thread> mains;
    for (const auto i : tasks)
      mains.emplace_back(
        [this, i, &fn] { members[i].attempt([&] { fn(members[i], i); }); });
    for (auto& x : mains)
      x.join();
  }
  template <class F>
  void for_each_member(F&& fn) {
    for_each_member(all_tasks(), std::forward<F>(fn));
  }

  void join(const std::vector<std::uint32_t>& tasks) {
    for_each_member(tasks, [this](member& x, std::uint32_t i) {
      x.joined_cluster =
        std::make_unique<cluster>(*x.local_runtime, options_of(i));
    });
  }
  void join() { join(all_tasks()); }

  /// Lets all members join the job and make their replica groups.
  void join_with_groups(const replica_group_options& options = {}) {
    join();
    for_each_member([&](member& x, std::uint32_t) {
      if (x.joined_cluster)
        x.group = make_replica_group(*x.joined_cluster, options);
    });
    for (const auto& x : members)
      ASSERT_EQ(x.problem, "");
  }

  std::vector<std::uint32_t> all_tasks() const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < members.size(); ++i)
      out.push_back(i);
    return out;
  }

  std::uint32_t replicas = 1; ///< Replicas of each process.
  std::chrono::milliseconds start_timeout{20'000};
  std::function<void(std::uint32_t, cluster_options&)> adjust_options;
  std::vector<net::address> addresses;
  std::vector<member> members;
};

} // namespace troupe::testing

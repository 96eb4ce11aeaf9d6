#pragma once

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/cluster/simple_resolver.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/training/strategies/multi_worker.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

namespace troupe::test {

/// Number of workers of the cluster in most tests.
inline constexpr std::uint32_t workers = 3;

/// Thrown by a worker to end its process and to start another one in its place,
/// which joins the running job.
struct start_again {
  multi_worker_options options{};
};

/// Calls `fn(strategy, worker)` on each worker of a cluster. Each worker is a
/// thread of this process with its own runtime, endpoint and lanes.
/// @param on_end called when a worker has ended.
/// @param has_chief true: the first one is the task chief 0, and the second one
///        is worker 0.
/// @returns the exception of each worker. Null: none.
inline std::vector<std::exception_ptr>
run_on_cluster(std::uint32_t workers, const multi_worker_options& options,
               const std::function<void(const strategy&, std::uint32_t)>& fn,
               const std::function<void(std::uint32_t)>& on_end = {},
               bool has_chief = false) {
  const net::reserved_ports ports{workers};
  std::map<std::string, net::cluster_spec::list> addresses;
  std::vector<net::simple_resolver::options> tasks;
  for (const auto port : ports.numbers()) {
    const auto* type = has_chief && tasks.empty() ? "chief" : "worker";
    auto& own = addresses[type];
    tasks.push_back(
      {.task_type = type, .task_id = static_cast<std::uint32_t>(own.size())});
    own.push_back("127.0.0.1:" + std::to_string(port));
  }
  const net::cluster_spec cluster{addresses};
  const auto run_one = [&](std::uint32_t w, const multi_worker_options& how) {
    runtime actors;
    const net::simple_resolver who{cluster, tasks[w]};
    const multi_worker_mirrored_strategy mine{actors, who, how};
    fn(mine, w);
  };
  std::vector<std::exception_ptr> thrown(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      auto how = options;
      for (bool again = true; again;)
        try {
          again = false;
          run_one(w, how);
        } catch (const start_again& x) {
          again = true;
          how = x.options;
          how.join_running_job = true;
        } catch (...) {
          thrown[w] = std::current_exception();
        }
      if (on_end)
        on_end(w);
    });
  for (auto& one : threads)
    one.join();
  return thrown;
}

inline void
expect_nothing_thrown(const std::vector<std::exception_ptr>& thrown) {
  for (const auto& x : thrown)
    EXPECT_EQ(exception_text(x), "");
}

} // namespace troupe::test

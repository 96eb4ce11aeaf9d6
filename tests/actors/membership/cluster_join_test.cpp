#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <atomic>
#include <future>

// A process that asks for a task whose process is connected, at another
// address.

namespace {

using namespace troupe;
using namespace troupe::testing;

constexpr auto patience = 60s;

/// A second process for task 2 of a job.
struct second_process {
  explicit second_process(const cluster_fixture& processes)
    : options{processes.options_of(2)} {
    process.router = make_router();
    options.router = process.router;
    options.join_running_job = true;
    options.log = [this](net::severity, const std::string& line) {
      if (mentions(line, "has joined already") && !has_refusal.exchange(true))
        refused.set_value();
    };
  }

  void join() {
    process.attempt([&] {
      process.joined_cluster =
        std::make_unique<cluster>(*process.local_runtime, options);
    });
  }

  cluster_options options;
  std::atomic<bool> has_refusal = false;
  std::promise<void> refused; ///< A member has refused it.
  member process;
};

TEST(ClusterJoin, OfASecondProcessFailsAtTheTimeoutWithTheReason) {
  cluster_fixture processes{3};
  processes.join();
  second_process second{processes};
  second.options.start_timeout = 2000ms;
  second.join();
  EXPECT_TRUE(second.has_refusal);
  EXPECT_EQ(second.process.code, ec::stalled);
  EXPECT_TRUE(mentions(second.process.problem,
                       "worker 2 has joined already and that process is alive"))
    << second.process.problem;
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "");
}

/// The members have not noticed yet that the first process is lost.
TEST(ClusterJoin, OfASecondProcessSucceedsWhenTheFirstOneIsLost) {
  cluster_fixture processes{3};
  processes.join();
  second_process second{processes};
  second.options.start_timeout = patience;
  std::thread joining{[&] { second.join(); }};
  EXPECT_EQ(second.refused.get_future().wait_for(patience),
            std::future_status::ready);
  auto& peers = *processes.members[2].joined_cluster->implementation().peers();
  for (const auto task : {0, 1})
    peers.get([&] { return peers.entries[task].connection; })
      ->close("the test cuts it");
  joining.join();
  EXPECT_EQ(second.process.problem, "");
  EXPECT_TRUE(second.process.joined_cluster);
}

} // namespace

#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>

// A process that asks for a task whose process is connected, at another
// address.

namespace {

using namespace troupe;
using namespace troupe::testing;

using troupe::test::patience;

/// A second process for a task of a job.
struct second_process {
  explicit second_process(const cluster_fixture& processes,
                          std::uint32_t task = 2)
    : options{processes.options_of(task)} {
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

/// Ends the connections of the process of a task to the two others.
void cut_connections_of(cluster_fixture& processes, std::uint32_t task) {
  auto& lost =
    *processes.members[task].joined_cluster->implementation().peers();
  for (const std::uint32_t other : {0, 1, 2})
    if (other != task)
      lost.get([&] { return lost.entries[other].connection; })
        ->close("the test cuts it");
}

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
  cut_connections_of(processes, 2);
  joining.join();
  EXPECT_EQ(second.process.problem, "");
  EXPECT_TRUE(second.process.joined_cluster);
}

/// A launcher that gets a report of a candidate only when it is repeated.
class busy_launcher final : public job_launcher {
public:
  void report_unreachable(std::uint64_t) override {}
  bool report_candidate(const net::process_identity& candidate) override {
    EXPECT_EQ(candidate, net::own_process_identity());
    return ++reports > 1;
  }
  std::uint64_t ask(const net::survivors_question&) override { return 1; }
  std::optional<bool> answer_to(std::uint64_t) override { return {}; }
  void withdraw() override {}

  std::atomic<int> reports = 0;
};

using launcher_list = std::array<std::shared_ptr<busy_launcher>, 3>;

/// The members have higher tasks, so they would open lanes to it.
TEST(ClusterJoin, OfAProcessThatTheMembersCannotReachIsRefused) {
  std::atomic<int> warnings = 0; // the processes write to it until they end
  launcher_list launchers;
  cluster_fixture processes{3};
  processes.adjust_options = [&](std::uint32_t task, cluster_options& options) {
    options.launcher = launchers[task] = std::make_shared<busy_launcher>();
    options.log = [&](net::severity how, const std::string& line) {
      warnings += how == net::severity::warning
                  && mentions(line, "the process cannot join");
    };
  };
  processes.join();
  cut_connections_of(processes, 0);
  processes.adjust_options = {};
  const net::reserved_ports closed{1};
  net::endpoint_options config;
  config.listen = net::address{"127.0.0.1", 0};
  config.advertised = net::address{"127.0.0.1", closed.numbers()[0]};
  member other;
  auto options = processes.options_of(0);
  other.router = options.router = std::make_shared<service_router>(config);
  options.join_running_job = true;
  options.start_timeout = 6000ms;
  options.log = {};
  other.attempt([&] {
    other.joined_cluster =
      std::make_unique<cluster>(*other.local_runtime, options);
  });
  EXPECT_EQ(other.code, ec::stalled);
  EXPECT_TRUE(mentions(other.problem, "cannot connect to chief 0 at 127.0.0.1:"
                                        + std::to_string(closed.numbers()[0])))
    << other.problem;
  EXPECT_EQ(warnings, 2);        // one of each member
  for (const auto task : {1, 2}) // the launcher remains a witness
    EXPECT_EQ(launchers[task]->reports, 0);
  for (const auto task : {1, 2}) {
    const auto view =
      processes.members[std::size_t(task)].joined_cluster->current_view();
    EXPECT_EQ(view.view_id, 2u);
    EXPECT_EQ(view.members.size(), 2u);
  }
}

/// A process takes the task of a lost one. Its launchers get no report of it at
/// first.
void expect_reported_before_it_joins(std::uint32_t task) {
  cluster_fixture processes{3};
  launcher_list launchers;
  processes.adjust_options = [&](std::uint32_t of, cluster_options& options) {
    options.launcher = launchers[of] = std::make_shared<busy_launcher>();
  };
  processes.join();
  cut_connections_of(processes, task);
  processes.adjust_options = {};
  second_process second{processes, task};
  second.options.start_timeout = patience;
  second.join();
  EXPECT_EQ(second.process.problem, "");
  // It knows the job by the first one that accepts it.
  int most = 0;
  for (const std::uint32_t other : {0, 1, 2})
    if (other != task) {
      most = std::max(most, launchers[other]->reports.load());
      EXPECT_EQ(processes.members[other].problem, "");
    }
  EXPECT_GE(most, 2);
}

TEST(ClusterJoin, OfAProcessWaitsUntilItIsReportedToTheLauncher) {
  expect_reported_before_it_joins(2);
}

/// The members dial it before they report it.
TEST(ClusterJoin, OfAProcessThatIsDialedWaitsUntilItIsReported) {
  expect_reported_before_it_joins(0);
}

/// The members end before its attempts do, so the last ones reach no process.
TEST(ClusterJoin, WithAnotherSecretFailsWithTheSecretAsTheReason) {
  net::endpoint_options config;
  config.listen = net::address{"127.0.0.1", 0};
  config.connection.credentials = {.secret = "open sesame"};
  std::optional<cluster_fixture> processes{2};
  for (auto& x : processes->members)
    x.router = std::make_shared<service_router>(config);
  for (std::uint32_t p = 0; p < 2; ++p)
    processes->addresses[p] =
      processes->members[p].router->endpoint().advertised_address();
  processes->join();
  cluster_options options = processes->options_of(1);
  std::promise<void> is_refused;
  member other;
  config.connection.credentials = {.secret = "open barley"};
  other.router = options.router = std::make_shared<service_router>(config);
  options.join_running_job = true;
  options.start_timeout = 2000ms;
  options.log = [&, has_line = false](net::severity,
                                      const std::string& line) mutable {
    if (mentions(line, "cannot join yet") && !std::exchange(has_line, true))
      is_refused.set_value();
  };
  std::thread joining{[&] {
    other.attempt([&] {
      other.joined_cluster =
        std::make_unique<cluster>(*other.local_runtime, options);
    });
  }};
  EXPECT_EQ(is_refused.get_future().wait_for(patience),
            std::future_status::ready);
  processes.reset();
  joining.join();
  EXPECT_TRUE(
    mentions(other.problem, "its secret is another than that of this process"))
    << other.problem;
}

/// It has connected to all members before they reject it. They tell it so on
/// the channels that are open, and answer the next one that asks.
TEST(ClusterJoin, OfAConnectedProcessIsRejectedWhenItAsksForResults) {
  cluster_fixture processes{3};
  processes.join();
  cut_connections_of(processes, 2);
  second_process second{processes}, third{processes};
  second.options.start_timeout = third.options.start_timeout = 10s;
  second.join();
  ASSERT_EQ(second.process.problem, "");
  for (const auto task : {0, 1}) {
    auto& peers =
      *processes.members[task].joined_cluster->implementation().peers();
    peers.update([&] { peers.log.rejection = "its program has ended"; });
  }
  second.process.attempt([&] {
    second.process.group =
      make_replica_group(*second.process.joined_cluster, {});
    second.process.group->result_of(0);
  });
  third.join();
  for (const auto* x : {&second, &third})
    EXPECT_TRUE(mentions(x->process.problem, "no process can join this job: "
                                             "its program has ended"))
      << x->process.problem;
  for (const auto task : {0, 1})
    EXPECT_EQ(processes.members[task].problem, "");
}

} // namespace

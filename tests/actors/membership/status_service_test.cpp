#include "troupe/actors/node/status_query.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <condition_variable>
#include <mutex>

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Queries the status until the text contains `expected`, for at most 30 s. An
/// error counts as a text, because the leader may not listen yet.
/// @param task the process that is asked.
std::string status_with(const cluster_fixture& processes,
                        const std::string& expected, std::size_t task = 0) {
  runtime client_runtime;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  std::string text;
  do {
    try {
      text = query_status(client_runtime, to_string(processes.addresses[task]));
    } catch (const job_error& x) {
      text = x.what();
    }
  } while (!mentions(text, expected)
           && std::chrono::steady_clock::now() < deadline);
  return text;
}

/// A flag that is set once and that threads wait for.
class one_shot {
public:
  void open() {
    const std::lock_guard hold{lock_};
    open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock hold{lock_};
    return changed_.wait_for(hold, 60s, [this] { return open_; });
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = false;
};

} // namespace

TEST(StatusService, NamesTheMembersAndTheReplicasAStepWaitsFor) {
  cluster_fixture processes{2};
  processes.join_with_groups();
  one_shot blocker;
  std::thread work{[&] {
    processes.for_each_member([&](member& process, std::uint32_t i) {
      outcome seen;
      auto job = seen.request(0, 6);
      job.step = [&, fn = job.step](step_context& at) {
        if (i == 1 && at.step == 3) {
          EXPECT_TRUE(blocker.wait());
        }
        fn(at);
      };
      process.group->run(job);
    });
  }};
  const auto status = status_with(processes, "step 3 is not done: ");
  EXPECT_EQ(status.rfind("job job, generation 1, step 3, ", 0), 0u) << status;
  for (const char* part :
       {"\nchief 0   active ", "\nworker 1  active ",
        "replica 0 waits for the sum of bucket ", "still missing replica 1",
        "replica 1 of worker 1 has not reported it"})
    EXPECT_TRUE(mentions(status, part)) << part << "\n" << status;
  blocker.open();
  work.join();
  const auto idle = status_with(processes, "step 6");
  EXPECT_FALSE(mentions(idle, "is not done")) << idle;
}

TEST(StatusService, NamesTheTasksThatDidNotJoinYet) {
  cluster_fixture processes{2};
  std::thread leader{[&] { processes.join({0}); }};
  const auto said = status_with(processes, "worker 1  absent");
  EXPECT_TRUE(mentions(said, "\nworker 1  absent ")) << said;
  EXPECT_TRUE(mentions(said, " never\n")) << said;
  EXPECT_TRUE(mentions(said, "worker 1 did not join yet")) << said;
  processes.join({1});
  leader.join();
  EXPECT_EQ(processes.members[0].problem, "");
}

TEST(StatusService, OfAMemberIsThatOfTheChief) {
  cluster_fixture processes{2};
  processes.join_with_groups();
  one_shot blocker;
  std::thread work{[&] {
    processes.for_each_member([&](member& process, std::uint32_t i) {
      outcome seen;
      auto job = seen.request(0, 3);
      job.step = [&, fn = job.step](step_context& at) {
        if (i == 0 && at.step == 2) {
          EXPECT_TRUE(blocker.wait());
        }
        fn(at);
      };
      process.group->run(job);
    });
  }};
  const auto status = status_with(processes, "step 2 is not done: ", 1);
  for (const char* part :
       {"\nchief 0   active ", "\nworker 1  active ", "\nmissing for ",
        "replica 0 of chief 0, in the sum of bucket "})
    EXPECT_TRUE(mentions(status, part)) << part << "\n" << status;
  blocker.open();
  work.join();
}

/// 70 clients connect and send nothing. The service closes the connections of
/// 6, because it accepts 64, and a run is not affected.
TEST(StatusService, RejectsExcessClientsAndTheRunContinues) {
  cluster_fixture processes{2};
  processes.join_with_groups();
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::shared_ptr<net::connection>> connections;
  std::size_t closed = 0;
  net::endpoint endpoint{{}};
  const auto on_end = [&](net::close_reason, const std::string& why) {
    const std::lock_guard hold{lock};
    closed += mentions(why, "too many status clients are connected");
    changed.notify_all();
  };
  for (int i = 0; i < 70; ++i)
    endpoint.dial(processes.addresses[0], {{}, "idler", 1, "status", {}}, 20s,
                  [&](net::endpoint::dial_result&& x) {
                    const auto one = std::get<std::shared_ptr<net::connection>>(
                      x.connection.value());
                    one->on_closed(on_end);
                    const std::lock_guard hold{lock};
                    connections.push_back(one);
                  });
  {
    std::unique_lock hold{lock};
    EXPECT_TRUE(changed.wait_for(hold, 30s, [&] { return closed == 6; }));
  }
  processes.for_each_member([&](member& x, std::uint32_t) {
    outcome seen;
    EXPECT_EQ(x.group->run(seen.request(0, 20)), 20u);
  });
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "");
}

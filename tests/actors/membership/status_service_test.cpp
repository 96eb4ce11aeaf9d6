#include "troupe/actors/node/status_query.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <condition_variable>
#include <mutex>

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Queries the status until the text has a part. A leader that does not listen
/// yet gives an error.
std::string status_with(const company_of& of, const std::string& part) {
  runtime asker;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  std::string said;
  do {
    try {
      said = remote_status(asker, to_string(of.addresses[0]));
    } catch (const failure& x) {
      said = x.what();
    }
  } while (!mentions(said, part)
           && std::chrono::steady_clock::now() < deadline);
  return said;
}

/// One-shot flag that threads wait for.
class gate {
public:
  void open() {
    const std::lock_guard hold{lock_};
    open_ = true;
    news_.notify_all();
  }
  bool wait() {
    std::unique_lock hold{lock_};
    return news_.wait_for(hold, 60s, [this] { return open_; });
  }

private:
  std::mutex lock_;
  std::condition_variable news_;
  bool open_ = false;
};

} // namespace

TEST(StatusService, NamesTheMembersAndTheReplicasAStepWaitsFor) {
  company_of it{2};
  it.gather();
  gate door;
  std::thread work{[&] {
    it.each([&](member& x, std::uint32_t i) {
      outcome seen;
      auto job = seen.job(0, 6);
      job.step = [&, fn = job.step](step_context& at) {
        if (i == 1 && at.step == 3) {
          EXPECT_TRUE(door.wait());
        }
        fn(at);
      };
      x.with->run(job);
    });
  }};
  const auto said = status_with(it, "step 3 is not done: ");
  EXPECT_EQ(said.rfind("job job, generation 1, step 3, ", 0), 0u) << said;
  for (const char* part :
       {"\nchief 0   active ", "\nworker 1  active ",
        "replica 0 waits for the sum of bucket ", "still missing replica 1",
        "replica 1 of worker 1 has not reported it"})
    EXPECT_TRUE(mentions(said, part)) << part << "\n" << said;
  door.open();
  work.join();
  const auto idle = status_with(it, "step 6");
  EXPECT_FALSE(mentions(idle, "is not done")) << idle;
}

TEST(StatusService, NamesTheTasksThatDidNotJoinYet) {
  company_of it{2};
  std::thread leader{[&] { it.join({0}); }};
  const auto said = status_with(it, "worker 1  absent");
  EXPECT_TRUE(mentions(said, "\nworker 1  absent ")) << said;
  EXPECT_TRUE(mentions(said, " never\n")) << said;
  EXPECT_TRUE(mentions(said, "worker 1 did not join yet")) << said;
  it.join({1});
  leader.join();
  EXPECT_EQ(it.members[0].problem, "");
}

TEST(StatusService, OfAMemberNamesTheLeader) {
  company_of it{2};
  it.join();
  runtime asker;
  EXPECT_TRUE(mentions(
    failure_of([&] { remote_status(asker, to_string(it.addresses[1])); },
               ec::refused),
    "worker 1 does not lead; ask chief 0 at " + to_string(it.addresses[0])));
}

/// More clients connect than the service accepts, and send nothing.
TEST(StatusService, RejectsExcessClientsAndTheRunContinues) {
  company_of it{2};
  it.gather();
  std::mutex lock;
  std::condition_variable news;
  std::vector<std::shared_ptr<net::connection>> silent;
  std::size_t closed = 0;
  net::endpoint from{{}};
  const auto on_end = [&](net::ending, const std::string& why) {
    const std::lock_guard hold{lock};
    closed += mentions(why, "too many status clients are connected");
    news.notify_all();
  };
  for (int i = 0; i < 70; ++i)
    from.dial(it.addresses[0], {{}, "idler", 1, "status", {}}, 20s,
              [&](net::endpoint::dialed&& x) {
                const auto one =
                  std::get<std::shared_ptr<net::connection>>(x.it.value());
                one->on_end(on_end);
                const std::lock_guard hold{lock};
                silent.push_back(one);
              });
  {
    std::unique_lock hold{lock};
    EXPECT_TRUE(news.wait_for(hold, 30s, [&] { return closed == 6; }));
  }
  it.each([&](member& x, std::uint32_t) {
    outcome seen;
    EXPECT_EQ(x.with->run(seen.job(0, 20)), 20u);
  });
  for (const auto& x : it.members)
    EXPECT_EQ(x.problem, "");
}

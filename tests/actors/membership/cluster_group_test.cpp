#include "troupe/tests/actors/collectives/packet_fault.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <atomic>
#include <future>

// A replica group whose replicas are in several processes.

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Runs steps in all processes. @returns the outcome of each process.
std::vector<outcome> run_all(company_of& it, std::uint64_t first,
                             std::uint64_t steps) {
  std::vector<outcome> out(it.members.size());
  it.each([&](member& x, std::uint32_t i) {
    out[i].end = x.with->run(out[i].job(first, steps));
  });
  for (const auto& x : it.members)
    EXPECT_EQ(x.problem, "");
  return out;
}

class Processes : public ::testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(, Processes, ::testing::Values(2, 3));

} // namespace

TEST_P(Processes, ReduceInTheOrderOfTheCanonicalTree) {
  const auto p = GetParam();
  company_of it{p};
  it.replicas = 2;
  it.gather();
  const auto first = run_all(it, 0, 30);
  const auto then = run_all(it, 30, 3);
  for (std::uint32_t i = 0; i < p; ++i) {
    EXPECT_EQ(it.members[i].with->local(), (crew::share{2 * i, 2, i, p}));
    EXPECT_EQ(it.members[i].with->replicas(), 2 * p);
    EXPECT_EQ(first[i].end, 30u);
    EXPECT_EQ(then[i].end, 33u);
    EXPECT_EQ(first[i].commits, first[0].commits)
      << "all processes receive the same commits";
    ASSERT_EQ(first[i].commits.size(), 30u);
    EXPECT_EQ(first[i].commits[7].contributors.size(), 2 * p);
    EXPECT_EQ(first[i].sums.size(), 2u * 2u * 30u) << "of its own replicas";
    for (const auto& [at, sum] : first[i].sums)
      EXPECT_TRUE(
        same_bits(sum, tree(0, 2 * p, std::get<1>(at), std::get<2>(at))));
  }
}

TEST_P(Processes, CallForEachForTheirOwnReplicasOnly) {
  company_of it{GetParam()};
  it.replicas = 2;
  it.gather();
  it.each([&](member& x, std::uint32_t i) {
    std::atomic<std::uint32_t> sum = 0;
    x.with->for_each([&](std::uint32_t r) { sum += r; });
    EXPECT_EQ(sum, 2 * i + 2 * i + 1);
  });
}

TEST_P(Processes, StopAtTheSameStepIfAnyOfThemStops) {
  company_of it{GetParam()};
  it.gather();
  std::vector<std::uint64_t> ends(it.members.size());
  it.each([&](member& x, std::uint32_t i) {
    outcome seen;
    auto job = seen.job(0, 1'000'000);
    job.on_commit = [&](const commit_record& c) {
      if (i == 1 && c.step == 20)
        x.with->stop();
    };
    ends[i] = x.with->run(job);
  });
  EXPECT_GT(ends[0], 20u);
  EXPECT_LE(ends[0], 20 + 2 * it.members[0].with->ahead() + 1);
  for (const auto end : ends)
    EXPECT_EQ(end, ends[0]);
}

TEST_P(Processes, ALateStopDoesNotEndTheNextRun) {
  company_of it{GetParam()};
  it.gather();
  std::promise<void> over; // for process 0, which asks for the next run
  auto is_over = over.get_future().share();
  std::vector<std::uint64_t> ends(it.members.size());
  it.each([&](member& x, std::uint32_t i) {
    outcome first, second;
    auto job = first.job(0, 100);
    job.on_commit = [&](const commit_record& c) {
      if (i != 1 || c.step != 99)
        return;
      is_over.wait();
      for (int stops = 0; stops < 500; ++stops) {
        x.with->stop(); // some arrive before the join of process 0, some later
        std::this_thread::yield();
      }
    };
    EXPECT_EQ(x.with->run(job), 100u);
    if (i == 0)
      over.set_value();
    ends[i] = x.with->run(second.job(1000, 10));
  });
  EXPECT_EQ(ends, std::vector<std::uint64_t>(it.members.size(), 1010));
}

TEST(ManyReplicas, LoseNoReportIfManyAreInFlight) {
  company_of it{2};
  it.replicas = 48;
  it.gather({.patience = 20s});
  it.each([&](member& x, std::uint32_t) {
    work job;
    job.steps = 1000;
    job.step = [](step_context&) {};
    EXPECT_EQ(x.with->run(job), 1000u);
  });
}

TEST_P(Processes, AllReportTheExceptionOfOneStepFunction) {
  company_of it{GetParam()};
  it.replicas = 2;
  it.gather();
  it.each([&](member& x, std::uint32_t) {
    outcome seen;
    auto job = seen.job(0, 100);
    job.step = [fn = job.step](step_context& at) {
      if (at.replica == 3 && at.step == 5)
        throw std::runtime_error("no such file");
      fn(at);
    };
    x.with->run(job);
  });
  for (const auto& x : it.members) {
    EXPECT_EQ(x.code, ec::invalid);
    EXPECT_EQ(x.problem,
              "replica 3 of worker 1 failed in step 5: no such file");
  }
  for (auto& x : it.members)
    x.problem.clear();
  const auto again = run_all(it, 5, 4);
  EXPECT_EQ(again[1].end, 9u) << "the group still works";
}

TEST_P(Processes, FailIfTheyAskForDifferentSteps) {
  company_of it{GetParam()};
  it.gather();
  it.each([&](member& x, std::uint32_t i) {
    outcome seen;
    x.with->run(seen.job(0, i == 1 ? 10 : 11));
  });
  for (const auto& x : it.members) {
    EXPECT_EQ(x.code, ec::protocol);
    EXPECT_TRUE(mentions(x.problem, "worker 1 ")) << x.problem;
    EXPECT_TRUE(mentions(x.problem, "steps [0, 10)")) << x.problem;
    EXPECT_TRUE(mentions(x.problem, "steps [0, 11)")) << x.problem;
  }
}

// A23: a reduce launched on 1 of 3 workers, with a timeout of 1 s.
TEST(A23, AReduceThatOneOfThreeBeganNamesTheTwoMissing) {
  company_of it{3};
  it.gather({.patience = 1s});
  for (const std::uint32_t i : {2u, 0u}) {
    auto& x = it.members[i];
    outcome seen;
    x.attempt([&] { x.with->run(seen.job(0, 1)); });
    EXPECT_EQ(x.code, ec::stalled);
  }
  EXPECT_EQ(it.members[2].problem,
            "steps [0, 1) as its run 1 cannot begin: for 1000 ms chief 0 and "
            "worker 1 did not join");
  EXPECT_EQ(it.members[0].problem, it.members[2].problem);
}

/// Two processes. Faults apply to the contributions that the second one sends
/// in step 3.
struct faulty {
  explicit faulty(fault_seam::fate what)
    : seam{std::make_shared<meddler>(subject::part, 3, what)} {
    it.change = [this](std::uint32_t i, cluster_options& x) {
      if (i == 1)
        x.faults = seam;
    };
    it.gather({.patience = 1s});
    seen = run_each(it, 10);
  }

  static std::vector<outcome> run_each(company_of& it, std::uint64_t steps) {
    std::vector<outcome> out(it.members.size());
    it.each(
      [&](member& x, std::uint32_t i) { x.with->run(out[i].job(0, steps)); });
    return out;
  }

  company_of it{2};
  std::shared_ptr<meddler> seam;
  std::vector<outcome> seen;
};

TEST(FaultyProcess, IsNamedInTheErrorIfItsPacketIsCorrupt) {
  const faulty on{{.corrupted = true}};
  EXPECT_GT(on.seam->times, 0);
  for (const auto& x : on.it.members) {
    EXPECT_EQ(x.code, ec::protocol);
    EXPECT_TRUE(mentions(x.problem, "chief 0")) << x.problem;
    EXPECT_TRUE(mentions(x.problem,
                         "worker 1 (replica 1) violated the protocol: "
                         "process 1 sent "
                         "bucket 9 of 4294987296 elements where bucket 9 of "
                         "20000 elements was expected in step 3"))
      << x.problem;
  }
}

TEST(FaultyProcess, IsNamedInTheErrorIfItsPacketIsDropped) {
  const faulty on{{.dropped = true}};
  EXPECT_GT(on.seam->times, 0);
  for (const auto& x : on.it.members) {
    EXPECT_EQ(x.code, ec::stalled);
    EXPECT_TRUE(mentions(x.problem, "step 3 stalled for 1000 ms")) << x.problem;
    EXPECT_TRUE(mentions(x.problem, "replica 0 waits for the sum of bucket "))
      << x.problem;
    EXPECT_TRUE(mentions(x.problem, "still missing replica 1")) << x.problem;
  }
}

TEST(FaultyProcess, ChangesNoBitIfAPacketIsLateOrDuplicated) {
  for (const auto what :
       {fault_seam::fate{.delay = 2ms}, fault_seam::fate{.twice = true}}) {
    const faulty on{what};
    EXPECT_GT(on.seam->times, 0);
    for (const auto& x : on.it.members)
      EXPECT_EQ(x.problem, "");
    for (const auto& x : on.seen)
      for (const auto& [at, sum] : x.sums)
        EXPECT_TRUE(
          same_bits(sum, tree(0, 2, std::get<1>(at), std::get<2>(at))));
  }
}

/// In step 17 one process leaves the job and closes its connections, while all
/// others run on.
void cut_off(company_of& it, std::uint32_t victim) {
  it.gather();
  it.each([&](member& x, std::uint32_t i) {
    outcome seen;
    auto job = seen.job(0, 100);
    job.step = [&x, i, victim, fn = job.step](step_context& at) {
      if (i == victim && at.step == 17) {
        x.in->leave();
        throw std::runtime_error("cut off");
      }
      fn(at);
    };
    x.with->run(job);
  });
}

TEST_P(Processes, NameALostWorkerWithItsStepAndOperation) {
  company_of it{GetParam()};
  cut_off(it, 1);
  for (std::uint32_t i = 0; i < it.members.size(); ++i) {
    const auto& x = it.members[i];
    EXPECT_EQ(x.code, ec::peer_lost);
    if (i == 1)
      continue;
    EXPECT_TRUE(mentions(x.problem, "worker 1 was lost in step 17: "))
      << x.problem;
    EXPECT_TRUE(mentions(x.problem, "replica 0 waits for the sum of bucket 3"))
      << x.problem;
  }
  it.each([](member& x, std::uint32_t i) {
    outcome seen;
    if (i != 1)
      x.with->run(seen.job(17, 1));
  });
  EXPECT_TRUE(mentions(it.members[0].problem, "worker 1 is lost"))
    << it.members[0].problem;
}

TEST_P(Processes, NameALostLeaderWithTheirStepAndOperation) {
  company_of it{GetParam()};
  cut_off(it, 0);
  for (std::uint32_t i = 1; i < it.members.size(); ++i) {
    const auto& x = it.members[i];
    EXPECT_EQ(x.code, ec::peer_lost);
    EXPECT_TRUE(
      mentions(x.problem, "chief 0, the leader, was lost in step 17: "))
      << x.problem;
    EXPECT_TRUE(mentions(x.problem, "waits for the sum of bucket 3"))
      << x.problem;
  }
}

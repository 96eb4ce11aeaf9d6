#include "troupe/tests/actors/collectives/packet_fault.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <atomic>
#include <future>
#include <semaphore>

// Tests of a replica group whose replicas are in several simulated processes.

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Runs steps in all processes. @returns the outcome of each process.
std::vector<outcome> run_all(cluster_fixture& processes, std::uint64_t first,
                             std::uint64_t steps) {
  std::vector<outcome> out(processes.members.size());
  processes.for_each_member([&](member& x, std::uint32_t i) {
    out[i].end = x.group->run(out[i].request(first, steps));
  });
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "");
  return out;
}

class Processes : public ::testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(, Processes, ::testing::Values(2, 3));

} // namespace

TEST_P(Processes, ReduceInTheOrderOfTheCanonicalTree) {
  const auto p = GetParam();
  cluster_fixture processes{p};
  processes.replicas = 2;
  processes.join_with_groups();
  const auto first = run_all(processes, 0, 30);
  const auto then = run_all(processes, 30, 3);
  for (std::uint32_t i = 0; i < p; ++i) {
    EXPECT_EQ(processes.members[i].group->replica_placement(),
              (local_placement{placement::contiguous(std::vector(p, 2u)), i}));
    EXPECT_EQ(processes.members[i].group->replicas(), 2 * p);
    EXPECT_EQ(first[i].end, 30u);
    EXPECT_EQ(then[i].end, 33u);
    EXPECT_EQ(first[i].commits, first[0].commits)
      << "all processes receive the same commits";
    ASSERT_EQ(first[i].commits.size(), 30u);
    EXPECT_EQ(first[i].commits[7].contributors.size(), 2 * p);
    EXPECT_EQ(first[i].sums.size(), 2u * 2u * 30u) << "of its own replicas";
    for (const auto& [at, sum] : first[i].sums)
      EXPECT_TRUE(same_bits(
        sum, expected_sum(0, 2 * p, std::get<1>(at), std::get<2>(at))));
  }
}

TEST_P(Processes, CallForEachForTheirOwnReplicasOnly) {
  cluster_fixture processes{GetParam()};
  processes.replicas = 2;
  processes.join_with_groups();
  processes.for_each_member([&](member& x, std::uint32_t i) {
    std::atomic<std::uint32_t> sum = 0;
    x.group->for_each([&](std::uint32_t r) { sum += r; });
    EXPECT_EQ(sum, 2 * i + 2 * i + 1);
  });
}

TEST_P(Processes, StopAtTheSameStepIfAnyOfThemStops) {
  cluster_fixture processes{GetParam()};
  processes.join_with_groups();
  std::vector<std::uint64_t> ends(processes.members.size());
  processes.for_each_member([&](member& process, std::uint32_t i) {
    outcome seen;
    auto job = seen.request(0, 1'000'000);
    job.on_commit = [&](const commit_record& c) {
      if (i == 1 && c.step == 20)
        process.group->stop();
    };
    ends[i] = process.group->run(job);
  });
  EXPECT_GT(ends[0], 20u);
  EXPECT_LE(ends[0],
            20 + 2 * processes.members[0].group->max_steps_ahead() + 1);
  for (const auto end : ends)
    EXPECT_EQ(end, ends[0]);
}

TEST_P(Processes, ALateStopDoesNotEndTheNextRun) {
  constexpr std::uint64_t pairs = 20, steps = 10;
  cluster_fixture processes{GetParam()};
  processes.join_with_groups();
  std::counting_semaphore<> first_run_ended{0}; // released by process 0
  processes.for_each_member([&](member& process, std::uint32_t i) {
    for (std::uint64_t pair = 0; pair < pairs; ++pair) {
      const auto first = pair * 2 * steps;
      outcome stopped, next;
      auto job = stopped.request(first, steps);
      job.on_commit = [&](const commit_record& c) {
        if (i != 1 || c.step != first + steps - 1)
          return;
        EXPECT_TRUE(first_run_ended.try_acquire_for(20s));
        // Some of these stops reach the chief before process 0 joins the next
        // run, and some reach it later.
        for (std::uint64_t yields = 0; yields < pair; ++yields)
          std::this_thread::yield();
        process.group->stop();
      };
      EXPECT_EQ(process.group->run(job), first + steps);
      if (i == 0)
        first_run_ended.release();
      EXPECT_EQ(process.group->run(next.request(first + steps, steps)),
                first + 2 * steps);
    }
  });
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "");
}

TEST_P(Processes, StopTheRunIfAskedThousandsOfTimes) {
  cluster_fixture processes{GetParam()};
  processes.join_with_groups();
  std::vector<std::uint64_t> ends(processes.members.size());
  processes.for_each_member([&](member& process, std::uint32_t i) {
    outcome seen;
    auto job = seen.request(0, 1'000'000);
    job.on_commit = [&](const commit_record& c) {
      if (i == 1 && c.step == 20)
        for (int stops = 0; stops < 100'000; ++stops)
          process.group->stop();
    };
    ends[i] = process.group->run(job);
  });
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "");
  EXPECT_GT(ends[0], 20u);
  EXPECT_EQ(ends, std::vector(ends.size(), ends[0]));
}

/// Runs steps in a job of three replicas in which process p hosts `counts[p]`.
void run_with_counts(const std::vector<std::uint32_t>& counts) {
  cluster_fixture processes{std::uint32_t(counts.size())};
  processes.adjust_options = [&](std::uint32_t task, cluster_options& x) {
    x.replicas = counts[task];
  };
  processes.join_with_groups();
  std::vector<outcome> seen(counts.size());
  processes.for_each_member([&](member& process, std::uint32_t i) {
    EXPECT_EQ(process.group->replica_placement().count(), counts[i]);
    EXPECT_EQ(process.group->run(seen[i].request(0, 20)), 20u);
  });
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(processes.members[i].problem, "");
    ASSERT_EQ(seen[i].commits.size(), 20u);
    for (const auto& commit : seen[i].commits)
      EXPECT_EQ(commit.contributors.size(), 3u);
    EXPECT_EQ(seen[i].sums.size(), counts[i] * 20 * 2);
    for (const auto& [key, sum] : seen[i].sums) {
      const auto& [replica, step, bucket] = key;
      EXPECT_TRUE(std::ranges::equal(
        sum.data<float>(), expected_sum(0, 3, step, bucket).data<float>()));
    }
  }
}

/// A server or an evaluator is a member that hosts no replica.
TEST(ProcessWithoutReplicas, IsAMemberAndSeesAllCommits) {
  run_with_counts({2, 0, 1});
  run_with_counts({0, 3, 0});
  run_with_counts({3, 0});
}

TEST(ProcessWithoutReplicas, CanBeTheLeader) {
  run_with_counts({0, 1, 2});
}

TEST(ProcessWithoutReplicas, IsNamedIfItIsLost) {
  cluster_fixture processes{3};
  processes.adjust_options = [&](std::uint32_t task, cluster_options& x) {
    x.replicas = task == 2 ? 0 : 1;
  };
  processes.join_with_groups();
  processes.for_each_member([&](member& process, std::uint32_t i) {
    outcome seen;
    auto job = seen.request(0, 1'000'000);
    if (i == 2)
      job.on_commit = [&](const commit_record& c) {
        if (c.step == 20)
          process.joined_cluster->leave();
      };
    process.group->run(job);
  });
  EXPECT_EQ(processes.members[0].code, ec::peer_lost);
  EXPECT_TRUE(mentions(processes.members[0].problem, "worker 2 was lost"))
    << processes.members[0].problem;
}

TEST(ManyReplicas, LoseNoReportIfManyAreInFlight) {
  cluster_fixture processes{2};
  processes.replicas = 48;
  processes.join_with_groups({.step_timeout = 20s});
  processes.for_each_member([&](member& x, std::uint32_t) {
    run_request job;
    job.steps = 1000;
    job.step = [](step_context&) {};
    EXPECT_EQ(x.group->run(job), 1000u);
  });
}

TEST_P(Processes, AllReportTheExceptionOfOneStepFunction) {
  cluster_fixture processes{GetParam()};
  processes.replicas = 2;
  processes.join_with_groups();
  processes.for_each_member([&](member& process, std::uint32_t) {
    outcome seen;
    auto job = seen.request(0, 100);
    job.step = [fn = job.step](step_context& at) {
      if (at.replica == 3 && at.step == 5)
        throw std::runtime_error("no such file");
      fn(at);
    };
    process.group->run(job);
  });
  for (const auto& x : processes.members) {
    EXPECT_EQ(x.code, ec::invalid);
    EXPECT_EQ(x.problem,
              "replica 3 of worker 1 failed in step 5: no such file");
  }
  for (auto& x : processes.members)
    x.problem.clear();
  const auto again = run_all(processes, 5, 4);
  EXPECT_EQ(again[1].end, 9u) << "the group still works";
}

TEST_P(Processes, FailIfTheyAskForDifferentSteps) {
  cluster_fixture processes{GetParam()};
  processes.join_with_groups();
  processes.for_each_member([&](member& x, std::uint32_t i) {
    outcome seen;
    x.group->run(seen.request(0, i == 1 ? 10 : 11));
  });
  for (const auto& x : processes.members) {
    EXPECT_EQ(x.code, ec::protocol);
    EXPECT_TRUE(mentions(x.problem, "worker 1 ")) << x.problem;
    EXPECT_TRUE(mentions(x.problem, "steps [0, 10)")) << x.problem;
    EXPECT_TRUE(mentions(x.problem, "steps [0, 11)")) << x.problem;
  }
}

// The tasks are chief 0, worker 1 and worker 2. Worker 2 requests the run
// alone, and its request fails after the timeout of 1 s with an error that
// names the two other tasks. Chief 0 then requests the run, and its request
// fails with an equal error.
TEST(ClusterGroup, AReduceThatOneOfThreeBeganNamesTheTwoMissing) {
  cluster_fixture processes{3};
  processes.join_with_groups({.step_timeout = 1s});
  for (const std::uint32_t i : {2u, 0u}) {
    auto& x = processes.members[i];
    outcome seen;
    x.attempt([&] { x.group->run(seen.request(0, 1)); });
    EXPECT_EQ(x.code, ec::stalled);
  }
  EXPECT_EQ(processes.members[2].problem,
            "steps [0, 1) as its run 1 cannot begin: for 1000 ms chief 0 and "
            "worker 1 did not join");
  EXPECT_EQ(processes.members[0].problem, processes.members[2].problem);
}

/// A run of two processes. The second process injects the fault `what` into the
/// contributions that it sends in step 3.
struct faulty_run {
  explicit faulty_run(fault_injector::injected_fault what)
    : injector{std::make_shared<step_fault_injector>(message_kind::contribution,
                                                     3, what)} {
    processes.adjust_options = [this](std::uint32_t i, cluster_options& x) {
      if (i == 1)
        x.faults = injector;
    };
    processes.join_with_groups({.step_timeout = 30s});
    outcomes = run_each(processes, 10);
  }

  static std::vector<outcome> run_each(cluster_fixture& processes,
                                       std::uint64_t steps) {
    std::vector<outcome> out(processes.members.size());
    processes.for_each_member([&](member& x, std::uint32_t i) {
      x.group->run(out[i].request(0, steps));
    });
    return out;
  }

  cluster_fixture processes{2};
  std::shared_ptr<step_fault_injector> injector;
  std::vector<outcome> outcomes;
};

// A job that goes on renews its view then (`FitReconnects`).
TEST(FaultyProcess, IsNamedInTheErrorIfItsPacketIsLostOrCorrupt) {
  for (const auto& what : {fault_injector::injected_fault{.dropped = true},
                           fault_injector::injected_fault{.corrupted = true}}) {
    const faulty_run on{what};
    EXPECT_GT(on.injector->times, 0);
    for (const auto& process : on.processes.members) {
      EXPECT_EQ(process.code, ec::unreachable);
      EXPECT_TRUE(mentions(process.problem, "lost its lanes to worker 1 "))
        << process.problem;
      EXPECT_TRUE(mentions(process.problem, "a packet was lost: "))
        << process.problem;
    }
  }
}

TEST(FaultyProcess, ChangesNoBitIfAPacketIsLateOrDuplicated) {
  for (const auto what : {fault_injector::injected_fault{.delay = 2ms},
                          fault_injector::injected_fault{.duplicated = true}}) {
    const faulty_run on{what};
    EXPECT_GT(on.injector->times, 0);
    for (const auto& x : on.processes.members)
      EXPECT_EQ(x.problem, "");
    for (const auto& x : on.outcomes)
      for (const auto& [at, sum] : x.sums)
        EXPECT_TRUE(
          same_bits(sum, expected_sum(0, 2, std::get<1>(at), std::get<2>(at))));
  }
}

/// Starts a run in all processes. In step 17, the victim leaves the job and
/// closes its connections, while the other processes continue.
void cut_off(cluster_fixture& processes, std::uint32_t victim) {
  processes.join_with_groups();
  processes.for_each_member([&](member& process, std::uint32_t i) {
    outcome seen;
    auto job = seen.request(0, 100);
    job.step = [&process, i, victim, fn = job.step](step_context& context) {
      if (i == victim && context.step == 17) {
        process.joined_cluster->leave();
        throw std::runtime_error("cut off");
      }
      fn(context);
    };
    process.group->run(job);
  });
}

/// Expects that the report says which process was lost in step 17. Every wait
/// in it must be a survivor's wait for the sum of bucket 3.
void expect_loss(const failure_report& report, std::uint32_t victim) {
  EXPECT_EQ(report.kind, failure_kind::process_lost);
  EXPECT_EQ(report.code, ec::peer_lost);
  EXPECT_EQ(report.processes, std::vector{victim});
  EXPECT_EQ(report.replicas, std::vector{victim}) << "one replica per process";
  EXPECT_EQ(report.run, 1u);
  EXPECT_EQ(report.step, 17u);
  EXPECT_FALSE(report.waits.empty());
  for (const auto& wait : report.waits) {
    EXPECT_FALSE(wait.reducer);
    EXPECT_NE(wait.id, victim);
    EXPECT_EQ(wait.current_activity, activity::all_reduce);
    EXPECT_EQ(wait.bucket, 3u);
    EXPECT_FALSE(wait.missing.empty());
  }
}

TEST_P(Processes, NameALostWorkerWithItsStepAndOperation) {
  cluster_fixture processes{GetParam()};
  cut_off(processes, 1);
  for (std::uint32_t i = 0; i < processes.members.size(); ++i) {
    const auto& process = processes.members[i];
    EXPECT_EQ(process.code, ec::peer_lost);
    if (i == 1)
      continue;
    EXPECT_TRUE(mentions(process.problem, "worker 1 was lost in step 17: "))
      << process.problem;
    EXPECT_TRUE(
      mentions(process.problem, "replica 0 waits for the sum of bucket 3"))
      << process.problem;
    expect_loss(process.report, 1);
  }
  processes.for_each_member([](member& x, std::uint32_t i) {
    outcome seen;
    if (i != 1)
      x.group->run(seen.request(17, 1));
  });
  // It has given up, and may have said so.
  EXPECT_TRUE(mentions(processes.members[0].problem, "worker 1 is lost")
              || mentions(processes.members[0].problem, "worker 1 has left"))
    << processes.members[0].problem;
}

TEST_P(Processes, NameALostLeaderWithTheirStepAndOperation) {
  cluster_fixture processes{GetParam()};
  cut_off(processes, 0);
  for (std::uint32_t i = 1; i < processes.members.size(); ++i) {
    const auto& process = processes.members[i];
    EXPECT_EQ(process.code, ec::peer_lost);
    EXPECT_TRUE(
      mentions(process.problem, "chief 0, the leader, was lost in step 17: "))
      << process.problem;
    EXPECT_TRUE(mentions(process.problem, "waits for the sum of bucket 3"))
      << process.problem;
    expect_loss(process.report, 0);
  }
}

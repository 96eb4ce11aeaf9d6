#include "troupe/tensors/context.hpp"
#include "troupe/tests/actors/group/actor_stage.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <thread>

using namespace troupe;
using namespace troupe::testing;

TEST(ActorGroup, ResultsEqualThoseOfTheSequentialGroup) {
  for (const std::uint32_t replicas : {1, 2, 3, 5}) {
    outcome wanted;
    const auto end =
      make_sequential_group({.replicas = replicas})->run(wanted.request(4, 12));
    for (const auto reducing :
         {reduction::replica_threads, reduction::reducer_actors})
      for (const bool via_mailbox : {false, true}) {
        SCOPED_TRACE(
          std::to_string(replicas) + " replicas, "
          + (reducing == reduction::reducer_actors ? "own" : "hosted")
          + (via_mailbox ? ", by mailbox" : ", by tensor queue"));
        group_fixture fixture{options_of(replicas, reducing), via_mailbox};
        outcome out;
        EXPECT_EQ(fixture.group->run(out.request(4, 12)), end);
        EXPECT_EQ(out.commits, wanted.commits);
        ASSERT_EQ(out.sums.size(), wanted.sums.size());
        for (const auto& [key, sum] : wanted.sums)
          EXPECT_TRUE(same_bits(out.sums.at(key), sum));
      }
  }
}

TEST(ActorGroup, OnlyANonContiguousRunBeginsANewGeneration) {
  group_fixture fixture{options_of(2, reduction::replica_threads)};
  outcome out;
  fixture.group->run(out.request(0, 2));
  fixture.group->run(out.request(2, 1));
  EXPECT_EQ(out.commits.back().generation, 1u);
  fixture.group->run(out.request(0, 1));
  EXPECT_EQ(out.commits.back().generation, 2u);
  EXPECT_EQ(out.commits.back().step, 0u);
  EXPECT_EQ(fixture.group->run(out.request(7, 0)), 7u);
}

TEST(ActorGroup, GathersInReplicaOrderWhileReplicasRunAhead) {
  for (const bool via_mailbox : {false, true}) {
    group_fixture fixture{options_of(3, reduction::replica_threads),
                          via_mailbox};
    std::atomic<int> seen = 0;
    fixture.group->run(
      {0,
       50,
       [&](step_context& context) {
         auto contribution = tensor::full({2}, context.replica + context.step);
         const auto gathered = context.gather(1, contribution);
         contribution.mutable_data<float>()[0] =
           -1; // the other replicas have received a copy
         for (std::uint32_t r = 0; r < 3; ++r)
           if (gathered[r].data<float>()[0] == float(r + context.step))
             ++seen;
       },
       {}});
    EXPECT_EQ(seen, 450);
  }
}

TEST(ActorGroup, StopEndsAllReplicasAtTheSameStepWithinTwoWindows) {
  group_fixture fixture{options_of(3, reduction::replica_threads)};
  std::array<std::atomic<std::uint64_t>, 3> ran{};
  const auto end =
    fixture.group->run({0, 1'000'000,
                        [&](step_context& context) {
                          context.contribute(0, tensor::full({4}, 1));
                          context.sum(0);
                          ++ran[context.replica];
                        },
                        [&](const commit_record& record) {
                          if (record.step == 10)
                            fixture.group->stop();
                        }});
  EXPECT_GT(end, 10u);
  // By the protocol (docs/protocols/step_commit.md), the chief grants at most
  // two step windows beyond the last acknowledged step. `stop` was called
  // before step 10 was acknowledged.
  EXPECT_LE(end, 10 + 2 * default_step_window);
  for (const auto& steps : ran)
    EXPECT_EQ(steps, end);
}

TEST(ActorGroup, NoReplicaIsMoreThanTheStepWindowAheadOfTheCommit) {
  group_fixture fixture{options_of(2, reduction::replica_threads)};
  std::promise<void> reached;
  auto reached_future = reached.get_future().share();
  std::atomic<std::uint64_t> fast = 0, when_released = 0;
  fixture.group->run(
    {0,
     50,
     [&, reached_future](
       step_context& context) { // no collective synchronizes the replicas
       if (context.replica == 1) {
         fast = context.step + 1;
         if (context.step + 1 == default_step_window)
           reached.set_value();
       } else if (context.step == 0) {
         reached_future.wait(); // waits until replica 1 has used its window
         when_released = fast.load();
       }
     },
     {}});
  EXPECT_EQ(when_released, default_step_window);
  EXPECT_EQ(fast, 50u);
}

TEST(ActorGroup, NoReplicaIsMoreThanTwoWindowsAheadOfASlowOnCommit) {
  group_fixture fixture{options_of(2, reduction::replica_threads)};
  std::promise<void> reached;
  auto reached_future = reached.get_future();
  std::atomic<std::uint64_t> ran = 0;
  const auto end = fixture.group->run(
    {0, 1'000'000,
     [&](step_context& context) {
       context.contribute(0, tensor::full({4}, 1));
       context.sum(0);
       if (context.replica == 0 && ++ran == 2 * default_step_window)
         reached.set_value();
     },
     [&](const commit_record& record) {
       if (record.step > 0)
         return;
       reached_future.wait(); // waits until all granted steps have run
       fixture.group->stop();
     }});
  EXPECT_EQ(end, 2 * default_step_window);
  EXPECT_EQ(ran, end);
}

TEST(ActorGroup, OnCommitMayTakeLongerThanTheStepTimeout) {
  auto options = options_of(2, reduction::replica_threads);
  options.step_timeout = std::chrono::milliseconds{20};
  group_fixture fixture{options};
  std::promise<void> never;
  const auto end = fixture.group->run(
    {0, 40, [](step_context&) {},
     [&](const commit_record& record) {
       if (record.step == 1) // delays the caller
         never.get_future().wait_for(5 * options.step_timeout);
     }});
  EXPECT_EQ(end, 40u);
}

TEST(ActorGroup, ForEachThrowsDuringARun) {
  group_fixture fixture{options_of(2, reduction::replica_threads)};
  outcome out;
  auto job = out.request(0, 3);
  job.on_commit = [&](const commit_record&) {
    EXPECT_THROW(fixture.group->for_each([](std::uint32_t) {}),
                 std::logic_error);
  };
  EXPECT_EQ(fixture.group->run(job), 3u);
}

TEST(ActorGroup, PassesAnExceptionOfOnCommitAndCanRunAgain) {
  group_fixture fixture{options_of(2, reduction::replica_threads)};
  outcome out;
  auto job = out.request(0, 50);
  job.on_commit = [](const commit_record& record) {
    if (record.step == 3)
      throw std::length_error("no room for this record");
  };
  EXPECT_THROW(fixture.group->run(job), std::length_error);
  EXPECT_EQ(fixture.group->run(out.request(50, 1)), 51u);
}

TEST(ActorGroup, ForEachRunsOnTheReplicasThreadInItsContext) {
  group_fixture fixture{options_of(3, reduction::replica_threads)};
  std::array<std::thread::id, 3> task_threads{}, step_threads{};
  std::array<char, 3>
    seen{}; // the elements' addresses distinguish the replicas
  fixture.group->for_each([&](std::uint32_t r) {
    task_threads[r] = std::this_thread::get_id();
    EXPECT_EQ(current_context().copy_index, r);
    current_context().execution_scope = &seen[r];
  });
  fixture.group->run(
    {0,
     1,
     [&](step_context& context) {
       step_threads[context.replica] = std::this_thread::get_id();
       EXPECT_EQ(current_context().execution_scope, &seen[context.replica]);
       EXPECT_EQ(current_context().random.seed, 42u);
       EXPECT_EQ(current_context().random.replica, context.replica);
     },
     {}});
  EXPECT_EQ(task_threads, step_threads);
  EXPECT_NE(step_threads[0], step_threads[1]);
  EXPECT_EQ(job_error_of(
              [&] {
                fixture.group->for_each([](std::uint32_t r) {
                  if (r == 2)
                    throw std::runtime_error("no room");
                });
              },
              ec::invalid),
            "replica 2: no room");
}

TEST(ActorGroup, SeveralRuntimesRunInOneProcess) {
  group_fixture a{options_of(2, reduction::replica_threads)},
    b{options_of(2, reduction::reducer_actors)};
  outcome x, y;
  std::thread other_thread{[&] { a.group->run(x.request(0, 20)); }};
  b.group->run(y.request(0, 20));
  other_thread.join();
  EXPECT_EQ(x.commits, y.commits);
}

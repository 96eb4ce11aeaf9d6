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
      make_inline_crew({.replicas = replicas})->run(wanted.job(4, 12));
    for (const auto reducing : {how::hosted, how::own})
      for (const bool by_mail : {false, true}) {
        SCOPED_TRACE(std::to_string(replicas) + " replicas, "
                     + (reducing == how::own ? "own" : "hosted")
                     + (by_mail ? ", by mailbox" : ", by tensor queue"));
        stage on{options_of(replicas, reducing), by_mail};
        outcome out;
        EXPECT_EQ(on.it->run(out.job(4, 12)), end);
        EXPECT_EQ(out.commits, wanted.commits);
        ASSERT_EQ(out.sums.size(), wanted.sums.size());
        for (const auto& [key, sum] : wanted.sums)
          EXPECT_TRUE(same_bits(out.sums.at(key), sum));
      }
  }
}

TEST(ActorGroup, OnlyANonContiguousRunBeginsANewGeneration) {
  stage on{options_of(2, how::hosted)};
  outcome out;
  on.it->run(out.job(0, 2));
  on.it->run(out.job(2, 1));
  EXPECT_EQ(out.commits.back().epoch, 1u);
  on.it->run(out.job(0, 1));
  EXPECT_EQ(out.commits.back().epoch, 2u);
  EXPECT_EQ(out.commits.back().step, 0u);
  EXPECT_EQ(on.it->run(out.job(7, 0)), 7u);
}

TEST(ActorGroup, GathersInReplicaOrderWhileReplicasRunAhead) {
  for (const bool by_mail : {false, true}) {
    stage on{options_of(3, how::hosted), by_mail};
    std::atomic<int> seen = 0;
    on.it->run({0,
                50,
                [&](step_context& at) {
                  auto mine = tensor::full({2}, at.replica + at.step);
                  const auto all = at.gather(1, mine);
                  mine.mutable_data<float>()[0] =
                    -1; // the other replicas got a copy
                  for (std::uint32_t r = 0; r < 3; ++r)
                    if (all[r].data<float>()[0] == float(r + at.step))
                      ++seen;
                },
                {}});
    EXPECT_EQ(seen, 450);
  }
}

TEST(ActorGroup, StopEndsAllReplicasAtTheSameStepWithinTwoWindows) {
  stage on{options_of(3, how::hosted)};
  std::array<std::atomic<std::uint64_t>, 3> ran{};
  const auto end = on.it->run({0, 1'000'000,
                               [&](step_context& at) {
                                 at.contribute(0, tensor::full({4}, 1));
                                 at.sum(0);
                                 ++ran[at.replica];
                               },
                               [&](const commit_record& x) {
                                 if (x.step == 10)
                                   on.it->stop();
                               }});
  EXPECT_GT(end, 10u);
  EXPECT_LE(
    end,
    10 + 2 * default_step_window); // the commit of step 10 was not acknowledged
  for (const auto& steps : ran)
    EXPECT_EQ(steps, end);
}

TEST(ActorGroup, NoReplicaIsMoreThanTheStepWindowAheadOfTheCommit) {
  stage on{options_of(2, how::hosted)};
  std::promise<void> reached;
  auto there = reached.get_future().share();
  std::atomic<std::uint64_t> fast = 0, when_released = 0;
  on.it->run(
    {0,
     50,
     [&, there](step_context& at) { // no collective synchronizes the replicas
       if (at.replica == 1) {
         fast = at.step + 1;
         if (at.step + 1 == default_step_window)
           reached.set_value();
       } else if (at.step == 0) {
         there.wait(); // until replica 1 has used its step window
         when_released = fast.load();
       }
     },
     {}});
  EXPECT_EQ(when_released, default_step_window);
  EXPECT_EQ(fast, 50u);
}

TEST(ActorGroup, NoReplicaIsMoreThanTwoWindowsAheadOfASlowOnCommit) {
  stage on{options_of(2, how::hosted)};
  std::promise<void> reached;
  auto there = reached.get_future();
  std::atomic<std::uint64_t> ran = 0;
  const auto end =
    on.it->run({0, 1'000'000,
                [&](step_context& at) {
                  at.contribute(0, tensor::full({4}, 1));
                  at.sum(0);
                  if (at.replica == 0 && ++ran == 2 * default_step_window)
                    reached.set_value();
                },
                [&](const commit_record& x) {
                  if (x.step > 0)
                    return;
                  there.wait(); // until all granted steps have run
                  on.it->stop();
                }});
  EXPECT_EQ(end, 2 * default_step_window);
  EXPECT_EQ(ran, end);
}

TEST(ActorGroup, OnCommitMayTakeLongerThanTheStepTimeout) {
  auto options = options_of(2, how::hosted);
  options.patience = std::chrono::milliseconds{20};
  stage on{options};
  std::promise<void> never;
  const auto end =
    on.it->run({0, 40, [](step_context&) {},
                [&](const commit_record& x) {
                  if (x.step == 1) // a delay, not a race
                    never.get_future().wait_for(5 * options.patience);
                }});
  EXPECT_EQ(end, 40u);
}

TEST(ActorGroup, ForEachThrowsDuringARun) {
  stage on{options_of(2, how::hosted)};
  outcome out;
  auto job = out.job(0, 3);
  job.on_commit = [&](const commit_record&) {
    EXPECT_THROW(on.it->for_each([](std::uint32_t) {}), std::logic_error);
  };
  EXPECT_EQ(on.it->run(job), 3u);
}

TEST(ActorGroup, PassesAnExceptionOfOnCommitAndCanRunAgain) {
  stage on{options_of(2, how::hosted)};
  outcome out;
  auto job = out.job(0, 50);
  job.on_commit = [](const commit_record& x) {
    if (x.step == 3)
      throw std::length_error("no room for this record");
  };
  EXPECT_THROW(on.it->run(job), std::length_error);
  EXPECT_EQ(on.it->run(out.job(50, 1)), 51u);
}

TEST(ActorGroup, ForEachRunsOnTheReplicasThreadInItsContext) {
  stage on{options_of(3, how::hosted)};
  std::array<std::thread::id, 3> there{}, here{};
  std::array<char, 3>
    seen{}; // the elements' addresses distinguish the replicas
  on.it->for_each([&](std::uint32_t r) {
    there[r] = std::this_thread::get_id();
    EXPECT_EQ(current_context().replica, r);
    current_context().place = &seen[r];
  });
  on.it->run({0,
              1,
              [&](step_context& at) {
                here[at.replica] = std::this_thread::get_id();
                EXPECT_EQ(current_context().place, &seen[at.replica]);
                EXPECT_EQ(current_context().random.seed, 42u);
                EXPECT_EQ(current_context().random.replica, at.replica);
              },
              {}});
  EXPECT_EQ(there, here);
  EXPECT_NE(here[0], here[1]);
  EXPECT_EQ(failure_of(
              [&] {
                on.it->for_each([](std::uint32_t r) {
                  if (r == 2)
                    throw std::runtime_error("no room");
                });
              },
              ec::invalid),
            "replica 2: no room");
}

TEST(ActorGroup, SeveralRuntimesRunInOneProcess) {
  stage a{options_of(2, how::hosted)}, b{options_of(2, how::own)};
  outcome x, y;
  std::thread other{[&] { a.it->run(x.job(0, 20)); }};
  b.it->run(y.job(0, 20));
  other.join();
  EXPECT_EQ(x.commits, y.commits);
}

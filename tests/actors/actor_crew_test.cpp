#include "troupe/tensors/context.hpp"
#include "troupe/tests/actors/stage.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

using namespace troupe;
using namespace troupe::testing;

TEST(ActorCrew, GivesTheSumsAndCommitsOfTheInlineCrew) {
  for (const std::uint32_t replicas : {1, 2, 3, 5}) {
    outcome wanted;
    const auto end =
      make_inline_crew({.replicas = replicas})->run(wanted.job(4, 12));
    for (const auto reducing : {how::hosted, how::own})
      for (const bool by_mail : {false, true}) {
        SCOPED_TRACE(std::to_string(replicas) + " replicas, "
                     + (reducing == how::own ? "own" : "hosted")
                     + (by_mail ? ", by mail" : ", by port"));
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

TEST(ActorCrew, GoesOnInTheSameEpochAndJumpsToANewOne) {
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

TEST(ActorCrew, GathersInOrderOfReplicasThoughSomeRunAhead) {
  for (const bool by_mail : {false, true}) {
    stage on{options_of(3, how::hosted), by_mail};
    std::atomic<int> seen = 0;
    on.it->run({0,
                50,
                [&](step_context& at) {
                  auto mine = tensor::full({2}, at.replica + at.step);
                  const auto all = at.gather(1, mine);
                  mine.mutable_data<float>()[0] = -1; // others got a copy
                  for (std::uint32_t r = 0; r < 3; ++r)
                    if (all[r].data<float>()[0] == float(r + at.step))
                      ++seen;
                },
                {}});
    EXPECT_EQ(seen, 450);
  }
}

TEST(ActorCrew, StopEndsAllReplicasAtTheSameStepWithinTheLease) {
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
  for (const auto& steps : ran)
    EXPECT_EQ(steps, end);
}

TEST(ActorCrew, NobodyRunsAheadOfTheCommitByMoreThanTheLease) {
  stage on{options_of(2, how::hosted)};
  std::atomic<std::uint64_t> slow = 0, fast = 0, ahead = 0;
  on.it->run({0,
              200,
              [&](step_context& at) { // no sum holds them together
                if (at.replica == 0) {
                  slow = at.step + 1;
                } else {
                  const auto done = slow.load();
                  fast = at.step + 1;
                  ahead = std::max(ahead.load(),
                                   at.step + 1 - std::min(done, at.step + 1));
                }
              },
              {}});
  EXPECT_EQ(fast, 200u);
  EXPECT_LE(ahead, crew::lease);
}

TEST(ActorCrew, LetsAnExceptionOfACommitPassAndWorksAgain) {
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

TEST(ActorCrew, VisitsEachReplicaOnItsThreadInItsContext) {
  stage on{options_of(3, how::hosted)};
  std::array<std::thread::id, 3> there{}, here{};
  on.it->for_each([&](std::uint32_t r) {
    there[r] = std::this_thread::get_id();
    EXPECT_EQ(current_context().replica, r);
    current_context().training = r == 1;
  });
  on.it->run({0,
              1,
              [&](step_context& at) {
                here[at.replica] = std::this_thread::get_id();
                EXPECT_EQ(current_context().training, at.replica == 1);
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

TEST(ActorCrew, SeveralRuntimesLiveInOneProcess) {
  stage a{options_of(2, how::hosted)}, b{options_of(2, how::own)};
  outcome x, y;
  std::thread other{[&] { a.it->run(x.job(0, 20)); }};
  b.it->run(y.job(0, 20));
  other.join();
  EXPECT_EQ(x.commits, y.commits);
}

#include "troupe/actors/protocol/run_messages.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/simulation/tiny_jobs.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

// Tests that a job over simulated processes gives the same bits as on one
// device.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t steps = 6;

const auto process_seeds = test::seeds_of(100);

tensors train(replica_group& group) {
  test::tiny_training training{group.replicas()};
  const auto step = [&](step_context& context) { training.step(context); };
  group.run({.steps = steps, .step = step, .on_commit = {}});
  return training.state();
}

/// All-reduces tensors of several chunks, with gathers in between.
tensors run_large_collectives(replica_group& group) {
  tensors out(group.replicas());
  const auto step = [&](step_context& context) {
    for (std::uint32_t bucket = 0; bucket < 3; ++bucket) {
      tensor contribution{{std::int64_t{70'000} >> (4 * bucket)}};
      random_stream draw{
        {.seed = bucket, .replica = context.replica, .step = context.step}};
      for (auto& x : contribution.mutable_data<float>())
        x = draw.uniform(-1, 1);
      context.contribute(bucket, contribution);
    }
    const auto all = context.gather(
      9, tensor::full({1 + std::int64_t(context.replica)}, context.step));
    auto sum = tensor::full({}, 0);
    for (const auto& x : all)
      sum.mutable_data<float>()[0] += float(x.size()) * x.data<float>()[0];
    for (std::uint32_t bucket = 3; bucket-- > 0;)
      if (context.step == 2)
        out[context.replica] = context.sum(bucket).clone();
      else
        context.sum(bucket);
    if (context.step == 1) {
      EXPECT_EQ(sum.item<float>(),
                float(context.replicas * (context.replicas + 1)) / 2);
    }
  };
  group.run({.steps = 3, .step = step, .on_commit = {}});
  return out;
}

/// Trains with `fit`, which reads the data of the local replicas only.
tensors fit_by(const strategy& job_strategy,
               const std::vector<std::uint32_t>& shares) {
  static const auto images = data::digits({.examples = 30, .seed = 1});
  static const models::model_description small{
    "small",
    {28, 28, 1},
    models::stack(models::flatten{}, models::dense{5, activation::relu},
                  models::dropout{0.2f}, models::dense{10})};
  const auto scope = job_strategy.scope();
  model model{small, adam{.learning_rate = 0.01f}};
  model.fit(images.shuffle().batch(15),
            {.epochs = 2, .replica_shares = shares, .prefetch = 0});
  return values_on_each(job_strategy, model.variables());
}

tensors fit(const strategy& job_strategy) {
  return fit_by(job_strategy, {});
}

/// Trains with `fit`, where each replica gets more rows than the one before.
tensors fit_by_shares(const strategy& job_strategy) {
  std::vector<std::uint32_t> shares(job_strategy.num_replicas_in_sync());
  std::iota(shares.begin(), shares.end(), 1u);
  return fit_by(job_strategy, shares);
}

struct job_shape {
  std::uint32_t replicas, processes;
  std::vector<placement::id_list> replicas_by_process{};
};

std::string name_of(const ::testing::TestParamInfo<job_shape>& info) {
  return std::to_string(info.param.replicas) + "over"
         + std::to_string(info.param.processes);
}

class Processes : public ::testing::TestWithParam<job_shape> {
protected:
  trial_options under(const network_options& network,
                      const faults& plan = {}) const {
    return {.plan = plan,
            .seeds = process_seeds,
            .group = {.replicas = GetParam().replicas},
            .processes = GetParam().processes,
            .network = network,
            .replicas_by_process = GetParam().replicas_by_process};
  }
};

INSTANTIATE_TEST_SUITE_P(Spread, Processes,
                         ::testing::Values(job_shape{3, 1}, job_shape{3, 2},
                                           job_shape{3, 3}, job_shape{4, 2},
                                           job_shape{4, 3}, job_shape{4, 4},
                                           job_shape{5, 2}, job_shape{5, 3},
                                           job_shape{5, 4}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Scattered, Processes,
                         ::testing::Values(job_shape{3, 2, {{0, 2}, {1}}},
                                           job_shape{4, 2, {{1, 3}, {0, 2}}},
                                           job_shape{
                                             5, 3, {{4}, {0, 3}, {1, 2}}}),
                         name_of);

TEST_P(Processes, GiveTheSameWeights) {
  const auto found = same_bits_of_group(train, under({}));
  EXPECT_TRUE(found.same) << found.message;
}

TEST_P(Processes, GiveTheSameWeightsOverAnyNetwork) {
  for (const network_options& network :
       {network_options{.latency = 0ns, .jitter = 0ns, .lane_capacity = 1},
        network_options{.latency = 1ms, .jitter = 50ms, .lane_capacity = 2},
        network_options{.latency = 1us, .jitter = 1us, .bandwidth = 1e6}}) {
    auto trials = under(network);
    trials.seeds /= 2;
    const auto found = same_bits_of_group(train, trials);
    EXPECT_TRUE(found.same) << found.message;
  }
}

TEST_P(Processes, GiveTheSameSumsAndGathersOfManyChunks) {
  auto trials = under({.jitter = 5ms, .bandwidth = 1e8, .lane_capacity = 2});
  trials.seeds /= 4;
  const auto found = same_bits_of_group(run_large_collectives, trials);
  EXPECT_TRUE(found.same) << found.message;
}

TEST_P(Processes, GiveTheSameWeightsThoughMessagesComeLateAndTwice) {
  const auto found = same_bits_of_group(
    train, under({}, faults{}.duplicate(0.2).delay(0.2, 20ms)));
  EXPECT_TRUE(found.same) << found.message;
  EXPECT_GT(found.fired.duplicates, process_seeds);
  EXPECT_GT(found.fired.delays, process_seeds);
}

TEST_P(Processes, GiveTheSameWeightsToFit) {
  auto trials = under({.jitter = 2ms, .bandwidth = 1e8},
                      faults{}.duplicate(0.1).delay(0.1));
  trials.seeds /= 10;
  for (const bool workers : {false, true}) {
    trials.workers = workers;
    const auto found = same_bits(fit, trials);
    EXPECT_TRUE(found.same) << (workers ? "workers, " : "") << found.message;
  }
}

TEST_P(Processes, GiveTheSameWeightsToFitByShares) {
  auto trials = under({.jitter = 2ms, .bandwidth = 1e8});
  trials.seeds /= 10;
  for (const bool workers : {false, true}) {
    trials.workers = workers;
    const auto found = same_bits(fit_by_shares, trials);
    EXPECT_TRUE(found.same) << (workers ? "workers, " : "") << found.message;
  }
}

TEST_P(Processes, GiveTheSameWeightsThoughAStepIsBegunAnew) {
  auto trials = under({}, faults{}.duplicate(0.2).delay(0.5));
  trials.seeds /= 2;
  const auto found = same_bits_of_group(test::train_with_redone_steps, trials);
  EXPECT_TRUE(found.same) << found.message;
}

TEST_P(Processes, GiveTheSameWeightsThoughOneBecomesSlow) {
  const auto last = GetParam().processes - 1;
  auto trials = under({}, faults{}.clog(process{last}, at_step{2}, 100));
  trials.seeds /= 4;
  const auto found = same_bits_of_group(train, trials);
  EXPECT_TRUE(found.same) << found.message;
  EXPECT_EQ(found.fired.slowed, last > 0 ? trials.seeds : 0);
}

TEST(ProcessesOfOneJob, ReceiveTheSameCommits) {
  for (std::uint64_t seed = 1; seed <= test::seeds_of(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    simulator sim{seed};
    simulated_processes processes{sim, {.replicas = 5}, {.processes = 3}};
    test::tiny_training training{5};
    std::vector<std::vector<double>> commits(3);
    const auto errors = processes.run_all([&](std::uint32_t p) {
      const auto step = [&](step_context& at) { training.step(at); };
      const auto note = [&commits, p](const commit_record& x) {
        EXPECT_EQ(x.contributors.size(), 5u);
        commits[p].push_back(double(x.step) + x.total.sums.at(0));
      };
      EXPECT_EQ(processes.group_of(p).run(
                  {.steps = 20, .step = step, .on_commit = note}),
                20u);
    });
    for (std::uint32_t p = 0; p < 3; ++p) {
      EXPECT_FALSE(errors[p]);
      EXPECT_EQ(commits[p], commits[0]);
    }
    EXPECT_EQ(commits[0].size(), 20u);
  }
}

TEST(ProcessesOfOneJob, CommitSlowStepsAtOnce) {
  constexpr auto latency = 15ms; // a step takes at least two
  simulator sim{1};
  simulated_processes processes{
    sim,
    {.replicas = 2},
    {.processes = 2, .network = {.latency = latency, .jitter = 0ns}}};
  test::tiny_training training{2};
  std::vector<caf::timespan> ends; // of the steps in process 1
  std::vector<std::vector<caf::timespan>> commits(2);
  const auto errors = processes.run_all([&](std::uint32_t p) {
    const auto step = [&, p](step_context& at) {
      training.step(at);
      if (p == 1)
        ends.push_back(sim.elapsed());
    };
    const auto note = [&, p](const commit_record&) {
      commits[p].push_back(sim.elapsed());
    };
    processes.group_of(p).run({.steps = 20, .step = step, .on_commit = note});
  });
  EXPECT_FALSE(errors[0] || errors[1]);
  ASSERT_EQ(ends.size(), 20u);
  ASSERT_EQ(commits[0].size(), 20u);
  ASSERT_EQ(commits[1].size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    EXPECT_LE(commits[0][i] - ends[i], latency + 1ms) << "the report";
    EXPECT_LE(commits[1][i] - commits[0][i], latency + 1ms) << "the commit";
  }
}

/// The commit of a fast step waits for others, but not for a slow step.
TEST(ProcessesOfOneJob, CommitFastStepsWithinAnInterval) {
  constexpr auto latency = 2ms;
  simulator sim{1};
  simulated_processes processes{
    sim,
    {.replicas = 2},
    {.processes = 2, .network = {.latency = latency, .jitter = 0ns}}};
  std::vector<std::vector<caf::timespan>> commits(2);
  const auto errors = processes.run_all([&](std::uint32_t p) {
    const auto step = [](step_context& at) {
      const auto gathers = at.step % 3 == 2 ? 50u : 1u;
      for (std::uint32_t i = 0; i < gathers; ++i)
        at.gather(i, tensor::full({1}, i));
      at.begin_update();
    };
    const auto note = [&, p](const commit_record&) {
      commits[p].push_back(sim.elapsed());
    };
    processes.group_of(p).run({.steps = 12, .step = step, .on_commit = note});
  });
  EXPECT_FALSE(errors[0] || errors[1]);
  ASSERT_EQ(commits[0].size(), 12u);
  ASSERT_EQ(commits[1].size(), 12u);
  EXPECT_GT(commits[0].back(), 400ms) << "no step was slow";
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_LE(commits[1][i] - commits[0][i], max_batch_delay + latency + 1ms)
      << "step " << i;
}

TEST(ProcessesOfOneJob, RepeatARunWithTheSameSeed) {
  const auto run = [](std::uint64_t first) {
    return same_bits_of_group(train,
                              {.plan = faults{}.duplicate(0.2).delay(0.2),
                               .seeds = 10,
                               .first_seed = first,
                               .group = {.replicas = 4},
                               .processes = 2});
  };
  const auto a = run(1), b = run(1);
  EXPECT_TRUE(a.same) << a.message;
  EXPECT_EQ(a.delivered, b.delivered);
  EXPECT_EQ(a.fired.delays, b.fired.delays);
  EXPECT_NE(a.delivered, run(11).delivered);
}

TEST(ProcessesOfOneJob, HostAtLeastOneReplicaEach) {
  simulator sim{1};
  for (const std::uint32_t processes : {0u, 3u})
    EXPECT_THROW(make_replica_group(sim, {.replicas = 2},
                                    {.processes = processes}, nullptr),
                 std::invalid_argument);
}

} // namespace
} // namespace troupe::simulation

#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/tests/simulation/tiny_jobs.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

// A job over simulated processes gives the bits of one device.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t steps = 6;

constexpr auto seeds = test::seeds_of(100);

tensors train(crew& on) {
  test::tiny_training training{on.replicas()};
  const auto step = [&](step_context& at) { training.step(at); };
  on.run({.steps = steps, .step = step, .on_commit = {}});
  return training.state();
}

/// All-reduces tensors of several chunks, with gathers in between.
tensors exchange_much(crew& on) {
  tensors out(on.replicas());
  const auto step = [&](step_context& at) {
    for (std::uint32_t bucket = 0; bucket < 3; ++bucket) {
      tensor mine{{std::int64_t{70'000} >> (4 * bucket)}};
      random_stream draw{
        {.seed = bucket, .replica = at.replica, .step = at.step}};
      for (auto& x : mine.mutable_data<float>())
        x = draw.uniform(-1, 1);
      at.contribute(bucket, mine);
    }
    const auto all =
      at.gather(9, tensor::full({1 + std::int64_t(at.replica)}, at.step));
    auto sum = tensor::full({}, 0);
    for (const auto& x : all)
      sum.mutable_data<float>()[0] += float(x.size()) * x.data<float>()[0];
    for (std::uint32_t bucket = 3; bucket-- > 0;)
      if (at.step == 2)
        out[at.replica] = at.sum(bucket).clone();
      else
        at.sum(bucket);
    if (at.step == 1) {
      EXPECT_EQ(sum.item<float>(), float(at.replicas * (at.replicas + 1)) / 2);
    }
  };
  on.run({.steps = 3, .step = step, .on_commit = {}});
  return out;
}

/// Trains with `fit`, which reads the data of the local replicas only.
tensors fit(const strategy& with) {
  static const auto images = data::digits({.examples = 30, .seed = 1});
  static const models::model_description small{
    "small",
    {28, 28, 1},
    models::stack(models::flatten{}, models::dense{5, activation::relu},
                  models::dropout{0.2f}, models::dense{10})};
  const auto scope = with.scope();
  model model{small, adam{.learning_rate = 0.01f}};
  model.fit(images.shuffle().batch(15), {.epochs = 2, .prefetch = 0});
  return values_on_each(with, model.variables());
}

struct shape_of {
  std::uint32_t replicas, processes;
};

class Processes : public testing::TestWithParam<shape_of> {
protected:
  trials under(const network& over, const faults& plan = {}) const {
    return {.plan = plan,
            .seeds = seeds,
            .crew = {.replicas = GetParam().replicas},
            .processes = GetParam().processes,
            .network = over};
  }
};

INSTANTIATE_TEST_SUITE_P(Spread, Processes,
                         testing::Values(shape_of{3, 1}, shape_of{3, 2},
                                         shape_of{3, 3}, shape_of{4, 2},
                                         shape_of{4, 3}, shape_of{4, 4},
                                         shape_of{5, 2}, shape_of{5, 3},
                                         shape_of{5, 4}),
                         [](const auto& info) {
                           return std::to_string(info.param.replicas) + "over"
                                  + std::to_string(info.param.processes);
                         });

TEST_P(Processes, GiveTheSameWeights) {
  const auto found = same_bits_of_crew(train, under({}));
  EXPECT_TRUE(found.same) << found.what;
}

TEST_P(Processes, GiveTheSameWeightsOverAnyNetwork) {
  for (const network& over :
       {network{.latency = 0ns, .jitter = 0ns, .parcels = 1},
        network{.latency = 1ms, .jitter = 50ms, .parcels = 2},
        network{.latency = 1us, .jitter = 1us, .bandwidth = 1e6}}) {
    auto some = under(over);
    some.seeds /= 2;
    const auto found = same_bits_of_crew(train, some);
    EXPECT_TRUE(found.same) << found.what;
  }
}

TEST_P(Processes, GiveTheSameSumsAndGathersOfManyChunks) {
  auto some = under({.jitter = 5ms, .bandwidth = 1e8, .parcels = 2});
  some.seeds /= 4;
  const auto found = same_bits_of_crew(exchange_much, some);
  EXPECT_TRUE(found.same) << found.what;
}

TEST_P(Processes, GiveTheSameWeightsThoughMessagesComeLateAndTwice) {
  const auto found = same_bits_of_crew(
    train, under({}, faults{}.duplicate(0.2).delay(0.2, 20ms)));
  EXPECT_TRUE(found.same) << found.what;
  EXPECT_GT(found.fired.duplicates, seeds);
  EXPECT_GT(found.fired.delays, seeds);
}

TEST_P(Processes, GiveTheSameWeightsToFit) {
  auto some = under({.jitter = 2ms, .bandwidth = 1e8},
                    faults{}.duplicate(0.1).delay(0.1));
  some.seeds /= 10;
  for (const bool workers : {false, true}) {
    some.workers = workers;
    const auto found = same_bits(fit, some);
    EXPECT_TRUE(found.same) << (workers ? "workers, " : "") << found.what;
  }
}

TEST_P(Processes, GiveTheSameWeightsThoughAStepIsBegunAnew) {
  auto some = under({}, faults{}.duplicate(0.2).delay(0.5));
  some.seeds /= 2;
  const auto found = same_bits_of_crew(test::train_with_second_thoughts, some);
  EXPECT_TRUE(found.same) << found.what;
}

TEST_P(Processes, GiveTheSameWeightsThoughOneBecomesSlow) {
  const auto last = GetParam().processes - 1;
  auto some = under({}, faults{}.slow(process{last}, at_step{2}, 100));
  some.seeds /= 4;
  const auto found = same_bits_of_crew(train, some);
  EXPECT_TRUE(found.same) << found.what;
  EXPECT_EQ(found.fired.slowed, last > 0 ? some.seeds : 0);
}

TEST(ProcessesOfOneJob, ReceiveTheSameCommits) {
  for (std::uint64_t seed = 1; seed <= test::seeds_of(20); ++seed) {
    sim world{seed};
    processes all{world, {.replicas = 5}, {.processes = 3}};
    test::tiny_training training{5};
    std::vector<std::vector<double>> heard(3);
    const auto ends = all.each([&](std::uint32_t p) {
      const auto step = [&](step_context& at) { training.step(at); };
      const auto note = [&heard, p](const commit_record& x) {
        EXPECT_EQ(x.contributors.size(), 5u);
        heard[p].push_back(double(x.step) + x.total.loss_sum);
      };
      EXPECT_EQ(all.of(p).run({.steps = 20, .step = step, .on_commit = note}),
                20u);
    });
    for (std::uint32_t p = 0; p < 3; ++p) {
      EXPECT_FALSE(ends[p]);
      EXPECT_EQ(heard[p], heard[0]);
    }
    EXPECT_EQ(heard[0].size(), 20u);
  }
}

TEST(ProcessesOfOneJob, RepeatARunWithTheSameSeed) {
  const auto run = [](std::uint64_t first) {
    return same_bits_of_crew(train, {.plan = faults{}.duplicate(0.2).delay(0.2),
                                     .seeds = 10,
                                     .first_seed = first,
                                     .crew = {.replicas = 4},
                                     .processes = 2});
  };
  const auto a = run(1), b = run(1);
  EXPECT_TRUE(a.same) << a.what;
  EXPECT_EQ(a.delivered, b.delivered);
  EXPECT_EQ(a.fired.delays, b.fired.delays);
  EXPECT_NE(a.delivered, run(11).delivered);
}

TEST(ProcessesOfOneJob, HostAtLeastOneReplicaEach) {
  sim world{1};
  for (const std::uint32_t processes : {0u, 3u})
    EXPECT_THROW(
      make_crew(world, {.replicas = 2}, {.processes = processes}, nullptr),
      std::invalid_argument);
}

} // namespace
} // namespace troupe::simulation

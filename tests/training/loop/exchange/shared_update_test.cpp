#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/strategies/tree/fold.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/exchange/shared_update.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>

namespace {

using namespace troupe;
using state = shared_update::gradient_state;

constexpr float greatest = std::numeric_limits<float>::max();
constexpr float infinity = std::numeric_limits<float>::infinity();

enum class threading { in_turn, own_threads };

/// A model of 50,000 weights and its shared update. The gradients are random.
class job {
public:
  job(runtime& actors, threading kind, std::uint32_t replicas, int threads = 1)
    : strategy_{make_strategy(actors, kind, replicas, threads)},
      model_{std::make_shared<model_state>(description(), adam{},
                                           models::find_loss("mean_squared_"
                                                             "error"),
                                           1, strategy_)},
      update_{*model_, trained()} {
    random_stream draw{{.seed = 7}};
    for (std::uint32_t r = 0; r < replicas; ++r)
      for (auto& x : gradient(r))
        x = draw.uniform(-1, 1);
    for (auto& x : values())
      x = draw.uniform(-1, 1);
  }

  /// The first 5,000 and the last 16 weights are frozen.
  static std::vector<element_range> trained() {
    return {{5'008, 30'000}, {30'000, 49'984}};
  }

  std::span<float> values() {
    return model_->model_parameters.values().mutable_data<float>();
  }
  std::span<float> slot(std::size_t s) {
    return model_->slots[0][s].mutable_data<float>();
  }
  std::span<float> gradient(std::uint32_t replica) {
    return model_->model_parameters.gradients(replica).mutable_data<float>();
  }
  tensor copy_of_values() const {
    return model_->model_parameters.values().clone();
  }
  tensors copy_of_slots() const {
    return {model_->slots[0][0].clone(), model_->slots[0][1].clone()};
  }

  state state_of(std::uint32_t replica) {
    const auto all = model_->model_parameters.gradients(replica);
    return update_.part_has_finite_sums(all, {0, all.size()})
             ? state::finite_sums
             : state::unknown;
  }

  /// Makes one step on all replicas.
  /// @param before_pass called on each replica before it updates.
  /// @param before_gradients called on each replica before it waits for the
  ///        gradients of the others.
  /// @returns whether each replica found the sums finite.
  std::vector<bool> run(
    const std::function<void(std::uint32_t)>& before_pass =
      [](std::uint32_t) {},
    const std::function<void(std::uint32_t)>& before_gradients =
      [](std::uint32_t) {}) {
    std::vector<char> finite(strategy_->replicas);
    run_request request;
    request.first_step = next_++;
    request.step = [&](step_context& step) {
      before_gradients(step.replica);
      // Only the learning rate of replica 0 counts.
      const auto rate = step.replica == 0 ? 0.1f : 7.0f;
      const auto agreed =
        update_.wait_for_gradients(step, state_of(step.replica), rate);
      finite[step.replica] = agreed.is_finite;
      before_pass(step.replica);
      if (finite[step.replica])
        update_.apply(model_->rule.step_at(1, agreed.learning_rate, 0.5f));
      update_.wait_for_end(step);
    };
    run_steps(strategy_, request);
    return {finite.begin(), finite.end()};
  }

  /// Makes steps with the learning rate 1.
  /// @param after_step called on each replica after each step.
  void run_steps_of(const update_rule& rule, std::uint64_t steps,
                    const std::function<void(std::uint64_t)>& after_step) {
    run_request request;
    request.steps = steps;
    request.step = [&](step_context& step) {
      EXPECT_TRUE(
        update_.wait_for_gradients(step, state::finite_sums, 1).is_finite);
      update_.apply(rule.step_at(1, 1));
      update_.wait_for_end(step);
      after_step(step.step);
    };
    run_steps(strategy_, request);
  }

  /// Returns the values after one step, by the definition of the tree sum.
  tensors expected() {
    const auto size = values().size();
    tensor sum{shape{std::int64_t(size)}};
    const std::function<float(std::uint32_t, std::uint32_t, std::size_t)> add =
      [&](std::uint32_t a, std::uint32_t b, std::size_t i) {
        if (b - a == 1)
          return gradient(a)[i];
        const auto cut = a + std::uint32_t(tree::split(b - a));
        return add(a, cut, i) + add(cut, b, i);
      };
    for (std::size_t i = 0; i < size; ++i)
      sum.mutable_data<float>()[i] = add(0, strategy_->replicas, i);
    tensors all{copy_of_values(), copy_of_slots()[0], copy_of_slots()[1]};
    for (const auto& [begin, end] : trained()) {
      const auto part = [&, begin = begin, end = end](tensor& x) {
        return x.mutable_data<float>().subspan(begin, end - begin);
      };
      const std::array<std::span<float>, 2> slots{part(all[1]), part(all[2])};
      model_->rule.apply(part(all[0]), part(sum), slots, 1, 0.1f, 0.5f);
    }
    return all;
  }

  void expect_values(const tensors& wanted) const {
    EXPECT_TRUE(same_bits(copy_of_values(), wanted[0]));
    EXPECT_TRUE(same_bits(copy_of_slots()[0], wanted[1]));
    EXPECT_TRUE(same_bits(copy_of_slots()[1], wanted[2]));
  }

  tensors current() const {
    return {copy_of_values(), copy_of_slots()[0], copy_of_slots()[1]};
  }

private:
  static models::model_description description() {
    return {"wide", {99}, models::stack(models::dense{500})};
  }

  static std::shared_ptr<strategy_state> make_strategy(runtime& actors,
                                                       threading kind,
                                                       std::uint32_t replicas,
                                                       int threads) {
    const replica_group_options options{.replicas = replicas,
                                        .threads = threads};
    return make_strategy_state(kind == threading::in_turn
                                 ? make_sequential_group(options)
                                 : make_replica_group(actors, options),
                               "test", std::vector<device>(replicas), threads);
  }

  std::shared_ptr<strategy_state> strategy_;
  std::shared_ptr<model_state> model_;
  shared_update update_;
  std::uint64_t next_ = 0;
};

class SharedUpdate : public ::testing::TestWithParam<threading> {
protected:
  runtime actors;
};

INSTANTIATE_TEST_SUITE_P(Replicas, SharedUpdate,
                         ::testing::Values(threading::in_turn,
                                           threading::own_threads),
                         [](const auto& x) {
                           return x.param == threading::in_turn ? "InTurn"
                                                                : "OnThreads";
                         });

TEST_P(SharedUpdate, HasTheBitsOfTheTreeSumAndTheRule) {
  for (const std::uint32_t replicas : {1, 2, 3, 5})
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, "
                   + std::to_string(threads) + " threads");
      job it{actors, GetParam(), replicas, threads};
      const auto wanted = it.expected();
      EXPECT_EQ(it.run(), std::vector<bool>(replicas, true));
      it.expect_values(wanted);
    }
}

TEST_P(SharedUpdate, NonFiniteGradientOfOneReplicaChangesNoValue) {
  for (const auto bad :
       {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
    for (const std::size_t i : {5'008, 30'000, 49'983}) {
      job it{actors, GetParam(), 3};
      it.gradient(1)[i] = bad;
      const auto before = it.current();
      EXPECT_EQ(it.run(), std::vector<bool>(3, false));
      it.expect_values(before);
    }
}

TEST_P(SharedUpdate, OverflowOfTheSumAloneChangesNoValue) {
  job it{actors, GetParam(), 3};
  for (const std::uint32_t r : {0, 2})
    it.gradient(r)[40'000] = greatest / 2 * 1.5f;
  const auto before = it.current();
  EXPECT_EQ(it.run(), std::vector<bool>(3, false));
  it.expect_values(before);
}

TEST_P(SharedUpdate, LargeGradientsWithAFiniteSumAreApplied) {
  job it{actors, GetParam(), 3};
  it.gradient(0)[40'000] = greatest;
  it.gradient(1)[40'000] = -greatest;
  EXPECT_EQ(it.state_of(0), state::unknown);
  EXPECT_EQ(it.state_of(2), state::finite_sums);
  const auto wanted = it.expected();
  EXPECT_EQ(it.run(), std::vector<bool>(3, true));
  it.expect_values(wanted);
}

/// Elements up to the limit of `has_finite_sums` have a finite sum.
TEST_P(SharedUpdate, FiniteSumsAreFinite) {
  for (const std::uint32_t replicas : {1, 2, 3, 5}) {
    job it{actors, GetParam(), replicas};
    const auto limit = greatest / (2 * float(replicas));
    for (std::uint32_t r = 0; r < replicas; ++r) {
      it.gradient(r)[40'000] = limit;
      EXPECT_EQ(it.state_of(r), state::finite_sums);
    }
    EXPECT_TRUE(std::isfinite(it.expected()[0].data<float>()[40'000]));
    it.gradient(0)[40'000] = std::nextafter(limit, infinity);
    EXPECT_EQ(it.state_of(0), state::unknown);
  }
}

/// A replica that fails after the others have begun cannot leave half an
/// update.
TEST_P(SharedUpdate, IsMadeByTheOtherReplicasIfOneFailsDuringIt) {
  for (int i = 0; i < 20; ++i) {
    job it{actors, GetParam(), 3};
    const auto before = it.current(), wanted = it.expected();
    std::atomic<int> others = 0;
    EXPECT_THROW(it.run([&](std::uint32_t replica) {
      if (replica == 1)
        throw std::runtime_error("failed");
      ++others;
    }),
                 std::runtime_error);
    it.expect_values(others > 0 ? wanted : before);
  }
}

TEST_P(SharedUpdate, ChangesNothingIfAReplicaFailsBefore) {
  job it{actors, GetParam(), 3};
  const auto before = it.current();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(it.run([](std::uint32_t) {},
                        [](std::uint32_t replica) {
                          if (replica == 1)
                            throw std::runtime_error("failed");
                        }),
                 std::runtime_error);
    it.expect_values(before);
  }
  const auto wanted = it.expected();
  it.run();
  it.expect_values(wanted);
}

/// A replica that has left `wait_for_end` reads no old value, and no value of
/// the next step.
TEST_P(SharedUpdate, AllValuesAreNewAfterTheEnd) {
  job it{actors, GetParam(), 3};
  for (std::uint32_t r = 0; r < 3; ++r)
    std::ranges::fill(it.gradient(r), 1.0f);
  std::ranges::fill(it.values(), 0.0f);
  std::atomic<int> wrong = 0;
  it.run_steps_of(sgd{}, 100, [&](std::uint64_t step) {
    for (const auto& [begin, end] : job::trained())
      for (const auto x : it.values().subspan(begin, end - begin))
        wrong += x != -3 * float(step + 1);
  });
  EXPECT_EQ(wrong, 0);
}

/// Each element is in one slice, whatever the number of threads that claim.
TEST(ClaimedSlices, CoverEachElementOnce) {
  const std::vector<element_range> ranges{
    {0, 5}, {7, 7}, {16, 16 + 3 * 64}, {300, 301}};
  claimed_slices slices;
  for (int round = 0; round < 2; ++round) {
    slices.reset();
    std::vector<std::vector<int>> seen(2, std::vector<int>(400));
    for (auto& mine : seen)
      slices.for_each(ranges, 64,
                      [&](std::size_t r, std::size_t begin, std::size_t end) {
                        EXPECT_GE(begin, ranges[r].begin);
                        EXPECT_LE(end, ranges[r].end);
                        EXPECT_LE(end - begin, 64u);
                        for (auto i = begin; i < end; ++i)
                          ++mine[i];
                      });
    for (std::size_t i = 0; i < 400; ++i) {
      const bool inside = std::ranges::any_of(
        ranges, [&](element_range x) { return x.begin <= i && i < x.end; });
      EXPECT_EQ(seen[0][i] + seen[1][i], int(inside)) << i;
    }
  }
}

} // namespace

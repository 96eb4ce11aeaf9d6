#include "troupe/actors/core/job_error.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <optional>

// Steps of a loop that fail at a planned place, on two workers that can always
// go on.

namespace {

using namespace troupe;
using namespace troupe::test;

constexpr std::uint32_t two_workers = 2;

/// The run in which the gather of the step is complete in worker 1, but not
/// in worker 0.
struct planned_split {
  int run = -1; ///< Number of the run from 0. -1: none.
  /// Number of a later run that is complete, but whose end worker 0 does not
  /// hear of. The next run of worker 1 fails. -1: none.
  int unheard = -1;
  std::latch has_gathered{1};
  std::atomic<int> failures = 0;
};

/// Passes all on to the context of a step.
class forwarding_context : public step_context {
public:
  explicit forwarding_context(step_context& to) : to_{to} {
    replica = to.replica;
    replicas = to.replicas;
    step = to.step;
    generation = to.generation;
    options = to.options;
  }
  bool takes_device_tensors() const override {
    return to_.takes_device_tensors();
  }
  void contribute(std::uint32_t bucket, const tensor& x) override {
    to_.options = options;
    to_.contribute(bucket, x);
  }
  tensor sum(std::uint32_t bucket) override { return to_.sum(bucket); }
  tensors gather(std::uint32_t bucket, const tensor& x) override {
    to_.options = options;
    return to_.gather(bucket, x);
  }
  pooled<std::uint64_t> barrier(std::uint32_t number,
                                std::uint64_t value) override {
    return to_.barrier(number, value);
  }
  void begin_update() override { to_.begin_update(); }

private:
  step_context& to_;
};

/// In worker 0 the gather fails after worker 1 has its result.
class split_context final : public forwarding_context {
public:
  split_context(step_context& to, planned_split& plan)
    : forwarding_context{to}, plan_{plan} {}
  tensors gather(std::uint32_t bucket, const tensor& x) override {
    auto out = forwarding_context::gather(bucket, x);
    if (replica == 0) {
      plan_.has_gathered.wait();
      throw job_error{ec::peer_lost, "the plan wants it"};
    }
    return out;
  }

private:
  planned_split& plan_;
};

class split_group final : public replica_group {
public:
  split_group(std::unique_ptr<replica_group> inner, planned_split& plan)
    : inner_{std::move(inner)}, plan_{plan} {}

  const local_placement& replica_placement() const override {
    return inner_->replica_placement();
  }
  std::uint64_t run(const run_request& request) override {
    const auto number = runs_++;
    const auto process = replica_placement().process;
    const job_error loss{ec::peer_lost, "the plan wants it"};
    if (plan_.unheard >= 0 && process == 1 && number == plan_.unheard + 1) {
      ++plan_.failures;
      throw loss;
    }
    if (number != plan_.run) {
      const auto next = inner_->run(request);
      if (process == 0 && number == plan_.unheard) {
        ++plan_.failures;
        throw loss;
      }
      return next;
    }
    auto split = request;
    split.step = [&](step_context& at) {
      split_context context{at, plan_};
      request.step(context);
      if (at.replica == 1)
        plan_.has_gathered.count_down();
    };
    try {
      return inner_->run(split);
    } catch (const std::exception&) {
      ++plan_.failures;
      throw loss;
    }
  }
  void stop() override { inner_->stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    inner_->for_each(fn);
  }
  bool enter_next_view(const std::optional<view_change::job_position>& position,
                       std::chrono::milliseconds) override {
    positions.push_back(position.value());
    return true;
  }

  std::vector<view_change::job_position> positions;

private:
  std::unique_ptr<replica_group> inner_;
  planned_split& plan_;
  int runs_ = 0;
};

struct call_outcome {
  std::string weights;
  std::vector<double> sums;
  std::uint64_t updates = 0;
  int calls = 0; ///< Of the function.
};

/// Makes three steps with an optimizer that has slots of its own.
call_outcome three_steps(const strategy& on) {
  const auto scope = on.scope();
  model it{small_net(), sgd{}};
  optimizer own{sgd{.learning_rate = 0.1f, .momentum = 0.9f}};
  call_outcome out;
  std::atomic<int> calls = 0;
  for (int step = 0; step < 3; ++step) {
    const auto results = on.run([&](replica_context& self) {
      ++calls;
      tensors ones;
      for (const auto& x : it.variables())
        ones.push_back(tensor::full(x.dims(), 1.0 + self.replica_id()));
      own.apply(self.all_reduce(sum, ones), it.variables());
      return double(self.replica_id() + 10 * step);
    });
    out.sums.push_back(on.reduce(sum, results));
  }
  out.weights = it.weights_sha256();
  out.updates = own.steps();
  out.calls = calls;
  return out;
}

/// @param split number of the run that is split. The runs of a step are its
///        own and that of `reduce`.
/// @param unheard as in `planned_split`.
void expect_roll_forward(int split, int unheard = -1) {
  planned_split plan;
  plan.run = split;
  plan.unheard = unheard;
  const auto losses = unheard < 0 ? 1u : 2u;
  runtime actors;
  const auto joint = std::make_shared<combined_group>(
    make_replica_group(actors, {.replicas = two_workers}), two_workers);
  std::vector<call_outcome> found(two_workers);
  std::vector<std::string> errors(two_workers);
  std::vector<std::vector<view_change::job_position>> positions(two_workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < two_workers; ++w)
    threads.emplace_back([&, w] {
      try {
        auto group = std::make_unique<split_group>(joint->group_of(w), plan);
        auto& own_group = *group;
        const strategy mine{make_strategy_state(
          std::move(group), "multi_worker_mirrored", {device{}}, 1)};
        found[w] = three_steps(mine);
        positions[w] = own_group.positions;
      } catch (const std::exception& e) {
        errors[w] = e.what();
      }
    });
  for (auto& one : threads)
    one.join();
  const auto expected = three_steps(turns(two_workers));
  for (std::uint32_t w = 0; w < two_workers; ++w) {
    EXPECT_EQ(errors[w], "");
    EXPECT_EQ(found[w].weights, expected.weights) << "worker " << w;
    EXPECT_EQ(found[w].sums, expected.sums) << "worker " << w;
    EXPECT_EQ(found[w].updates, expected.updates) << "worker " << w;
    EXPECT_EQ(found[w].calls, 3) << "the step was made again";
    ASSERT_EQ(positions[w].size(), losses);
    for (std::size_t i = 0; i < losses; ++i) {
      EXPECT_EQ(positions[w][i].run, positions[0][0].run);
      EXPECT_EQ(positions[w][i].step, w) << "worker 1 has made the step";
    }
  }
  EXPECT_EQ(plan.failures, 2 * int(losses));
}

TEST(LoopCall, AProcessThatLacksAStepTakesStateAndResultsFromOneThatHasMadeIt) {
  expect_roll_forward(2);
}

/// Worker 0 has no slots yet, because its step is undone.
TEST(LoopCall, TheStateHasTheSlotsThatTheFirstStepMakes) {
  expect_roll_forward(0);
}

/// Worker 0 does not hear of the end of its copy. If the source had gone on, it
/// would be in the next call. The runs are the step, its reduce, the split
/// step, the positions and the texts of the state. Then come the values and the
/// slots of each of four variables.
TEST(LoopCall, TheSourceWaitsUntilAllHaveCopiedTheState) {
  expect_roll_forward(2, 9);
}

} // namespace

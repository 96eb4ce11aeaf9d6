#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/audit/parameter_audit.hpp"
#include "troupe/training/loop/exchange/train_step.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>

namespace {

using namespace troupe;

/// The schedule throws on replica 1 in step 2 when replica 0 has made its
/// update.
TEST(TrainStep, CopiesAreEqualAfterAnUpdateThatOneReplicaHasNotMade) {
  runtime actors;
  const auto state =
    make_strategy_state(make_replica_group(actors, {.replicas = 2}), "test",
                        std::vector<device>(2), 1);
  state->is_one_process = false;
  state->copies = 2;
  const auto model = std::make_shared<model_state>(
    small_net(), adam{}, models::find_loss("softmax_cross_entropy"), 1, state);
  std::promise<void> first_is_done;
  fit_options options;
  options.schedule = function_schedule{[&](std::uint64_t step) {
    if (step == 2 && get_replica_context()->replica_id() == 1) {
      const auto waited =
        first_is_done.get_future().wait_for(std::chrono::seconds{60});
      EXPECT_EQ(waited, std::future_status::ready);
      throw std::runtime_error("no rate");
    }
    return 0.1f;
  }};
  train_step train{model, options};
  train.set_batches(std::make_shared<batch_feed>(
    digits_200().batch(16), data::position{}, 0, *state->group));
  run_request request;
  request.steps = 4;
  request.step = [&](step_context& step) {
    train(step);
    if (step.step == 2 && step.replica == 0)
      first_is_done.set_value();
  };
  EXPECT_THROW(run_steps(state, request), std::runtime_error);
  const auto copy = [&](std::uint32_t c) {
    return model->model_parameters.values(c);
  };
  const auto furthest = copy(0).clone();
  EXPECT_FALSE(same_bits(copy(1), furthest));
  EXPECT_EQ(train.resync_replicas(), 3u);
  EXPECT_TRUE(same_bits(copy(0), furthest));
  EXPECT_TRUE(same_bits(copy(1), furthest));
  for (std::size_t s = 0; s < model->slots[0].size(); ++s)
    EXPECT_TRUE(same_bits(model->slots[0][s], model->slots[1][s]));
}

} // namespace

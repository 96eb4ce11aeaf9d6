#include "troupe/training/parameter_server/server_tasks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

tensor numbers(const std::vector<std::int64_t>& xs) {
  return tensor::of<std::int64_t>({std::int64_t(xs.size())}, xs);
}

tensor rates(const std::vector<float>& xs) {
  return tensor::of<float>({std::int64_t(xs.size())}, xs);
}

const auto text = tensor::zeros({3}, dtype::uint8);

TEST(ServerTasks, OfATrainingAreDecodedAsTheyWereEncoded) {
  const train_task task{.training = 9,
                        .replica = 2,
                        .replicas = 5,
                        .first = 3,
                        .last = 5,
                        .is_synchronous = true,
                        .has_table_consistency = true,
                        .epoch = 3,
                        .index = 1'000'000'000'000,
                        .batches = 1'000'000'000'001,
                        .model_step = 7,
                        .throws_on_nan = true,
                        .learning_rates = {0.25F, 0.5F},
                        .description = "model: a\nloss: b\n"};
  const auto found = decode_train_task(encode(task));
  EXPECT_EQ(found.training, task.training);
  EXPECT_EQ(found.replica, task.replica);
  EXPECT_EQ(found.replicas, task.replicas);
  EXPECT_EQ(found.first, task.first);
  EXPECT_EQ(found.last, task.last);
  EXPECT_TRUE(found.is_synchronous);
  EXPECT_TRUE(found.has_table_consistency);
  EXPECT_EQ(found.epoch, task.epoch);
  EXPECT_EQ(found.index, task.index);
  EXPECT_EQ(found.batches, task.batches);
  EXPECT_EQ(found.model_step, task.model_step);
  EXPECT_TRUE(found.throws_on_nan);
  EXPECT_EQ(found.learning_rates, task.learning_rates);
  EXPECT_EQ(found.description, task.description);
  EXPECT_FALSE(decode_train_task(encode(train_task{})).is_synchronous);
}

TEST(ServerTasks, BatchesOfAStepAreThoseOfItsReplica) {
  train_task task{.replica = 2, .replicas = 3};
  EXPECT_EQ(task.batch_of(4), 14u);
  task.is_synchronous = true;
  EXPECT_EQ(task.batch_of(4), 4u);
}

TEST(ServerTasks, ThatAreImpossibleAreRejected) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto good = numbers({1, 0, 1, 2, 4, 0, 0, 0, 0, 9, 0, 0});
  EXPECT_NO_THROW(decode_train_task({good, rates({}), text}));
  EXPECT_NO_THROW(decode_train_task({good, rates({1, 2}), text}));
  for (const auto& wrong :
       {tensors{}, tensors{tensor{}, tensor{}, tensor{}},
        tensors{numbers({1, 0, 1, 2, 4, 0, 0, 0, 0, 9, 0}), rates({}), text},
        // A number is negative.
        tensors{numbers({1, 0, 1, 2, 4, 0, 0, -1, 0, 9, 0, 0}), rates({}),
                text},
        // There is no such replica.
        tensors{numbers({1, 1, 1, 2, 4, 0, 0, 0, 0, 9, 0, 0}), rates({}), text},
        tensors{numbers({1, 0, 0, 2, 4, 0, 0, 0, 0, 9, 0, 0}), rates({}), text},
        tensors{
          numbers({1, 0, std::int64_t{1} << 40, 2, 4, 0, 0, 0, 0, 9, 0, 0}),
          rates({}), text},
        // The steps end before they begin, or after the epoch.
        tensors{numbers({1, 0, 1, 2, 1, 0, 0, 0, 0, 9, 0, 0}), rates({}), text},
        tensors{numbers({1, 0, 1, 2, 4, 0, 0, 0, 0, 3, 0, 0}), rates({}), text},
        tensors{good, rates({1}), text}, tensors{good, rates({1, nan}), text},
        tensors{good, rates({1, -1}), text},
        tensors{good, tensor::zeros({2, 1}), text},
        tensors{good, rates({}), tensor::zeros({3})},
        tensors{good, rates({}), tensor::zeros({1, 3}, dtype::uint8)}})
    EXPECT_THROW(decode_train_task(wrong), std::invalid_argument);
}

TEST(ServerTasks, OfAnEvaluationAreDecodedAsTheyWereEncoded) {
  const auto found = decode_score_task(encode(score_task{7, 9, "loss: b\n"}));
  EXPECT_EQ(found.index, 7u);
  EXPECT_EQ(found.batches, 9u);
  EXPECT_EQ(found.description, "loss: b\n");
  for (const auto& wrong :
       {tensors{}, tensors{numbers({1}), text}, tensors{numbers({1, -1}), text},
        tensors{numbers({0, 1}), tensor::zeros({3})}})
    EXPECT_THROW(decode_score_task(wrong), std::invalid_argument);
}

TEST(ServerTasks, MetricsAreDecodedAsTheyWereEncoded) {
  const std::vector<step_metrics> all{{64, {1.5, 0, -2}}, {8, {0, 3, 1}}};
  EXPECT_EQ(decode_metrics(encode(all, 3), 2, 3), all);
  EXPECT_THROW(decode_metrics(encode(all, 3), 1, 3), std::invalid_argument);
  EXPECT_THROW(decode_metrics(encode(all, 3), 2, 2), std::invalid_argument);
  EXPECT_THROW(decode_metrics({}, 0, 0), std::invalid_argument);
  for (const auto examples :
       {-1., 1e300, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(
      decode_metrics({tensor::of<double>({1, 1}, std::vector{examples})}, 1, 0),
      std::invalid_argument);
}

TEST(ServerTasks, ReportsAreDecodedAsTheyWereEncoded) {
  const replica_report report{5, 48, {12, {1.5, 0}}};
  const auto found = decode_replica_report(encode(report), 2);
  EXPECT_EQ(found.step, 5u);
  EXPECT_EQ(found.rows, 48);
  EXPECT_EQ(found.metrics, report.metrics);
  auto wrong = encode(report);
  wrong[0] = numbers({-1, 48});
  EXPECT_THROW(decode_replica_report(wrong, 2), std::invalid_argument);
  EXPECT_THROW(decode_replica_report(encode(report), 1), std::invalid_argument);
}

} // namespace
} // namespace troupe

#include "troupe/training/parameter_server/batch_task.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

tensors inputs(const std::vector<std::int64_t>& numbers, float rate = 0.5F,
               const tensor& description = tensor::zeros({3}, dtype::uint8)) {
  return {tensor::of<std::int64_t>({std::int64_t(numbers.size())}, numbers),
          tensor::of<float>({1}, std::vector{rate}), description};
}

TEST(BatchTask, IsDecodedAsItWasEncoded) {
  const batch_task task{.what = batch_task::kind::contribute_dense,
                        .epoch = 3,
                        .index = 1'000'000'000'000,
                        .batches = 1'000'000'000'001,
                        .step = 7,
                        .replica = 2,
                        .replicas = 5,
                        .learning_rate = 0.25F,
                        .throws_on_nan = true,
                        .description = "model: a\nloss: b\n"};
  const auto found = decode_batch_task(encode(task));
  EXPECT_EQ(found.what, task.what);
  EXPECT_EQ(found.epoch, task.epoch);
  EXPECT_EQ(found.index, task.index);
  EXPECT_EQ(found.batches, task.batches);
  EXPECT_EQ(found.step, task.step);
  EXPECT_EQ(found.replica, task.replica);
  EXPECT_EQ(found.replicas, task.replicas);
  EXPECT_EQ(found.learning_rate, task.learning_rate);
  EXPECT_TRUE(found.throws_on_nan);
  EXPECT_EQ(found.description, task.description);
  EXPECT_EQ(decode_batch_task(encode(batch_task{})).description, "");
}

TEST(BatchTask, IsRejectedIfItIsImpossible) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NO_THROW(decode_batch_task(inputs({0, 0, 0, 1, 0, 0, 1, 0})));
  for (const auto& wrong :
       {tensors{}, inputs({0, 0, 0, 1, 0, 0, 1}),
        inputs({4, 0, 0, 1, 0, 0, 1, 0}),  // unknown kind
        inputs({0, -1, 0, 1, 0, 0, 1, 0}), // negative
        inputs({0, 0, 0, 1, 0, 1, 1, 0}),  // unknown replica
        inputs({0, 0, 0, 1, 0, 0, 0, 0}),
        inputs({0, 0, 0, 1, 0, 0, std::int64_t{1} << 40, 0}),
        inputs({0, 0, 0, 1, 0, 0, 1, 0}, nan),
        inputs({0, 0, 0, 1, 0, 0, 1, 0}, -1),
        inputs({0, 0, 0, 1, 0, 0, 1, 0}, 1, tensor::zeros({3})),
        inputs({0, 0, 0, 1, 0, 0, 1, 0}, 1,
               tensor::zeros({1, 3}, dtype::uint8)),
        tensors{tensor{}, tensor{}, tensor{}}})
    EXPECT_THROW(decode_batch_task(wrong), std::invalid_argument);
}

TEST(BatchTask, MetricsAreDecodedAsTheyWereEncoded) {
  const step_metrics metrics{.examples = 64, .sums = {1.5, 0, -2}};
  EXPECT_EQ(decode_step_metrics(encode(metrics), 3), metrics);
  EXPECT_THROW(decode_step_metrics(encode(metrics), 2), std::invalid_argument);
  EXPECT_THROW(decode_step_metrics({}, 0), std::invalid_argument);
  for (const auto examples :
       {-1., 1e300, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(
      decode_step_metrics({tensor::of<double>({1}, std::vector{examples})}, 0),
      std::invalid_argument);
}

} // namespace
} // namespace troupe

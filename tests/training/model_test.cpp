#include "troupe/data/digits.hpp"
#include "troupe/models/ready.hpp"
#include "troupe/training/local_strategies.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

TEST(Model, LearnsDigitsOnOneDevice) {
  const auto [train, test] = data::digits({.examples = 4000}).split(0.8);
  const one_device_strategy strategy{"cpu:0"};
  const auto scope = strategy.scope();
  model model{models::mlp(), adam{}};
  const auto history = model.fit(train.shuffle().batch(64),
                                 {.epochs = 3, .validation = test.batch(256)});
  std::printf("%s\n", epoch_line(history.last(), 3).c_str());
  EXPECT_GT(history.last().validation_accuracy, 0.5);
}

} // namespace

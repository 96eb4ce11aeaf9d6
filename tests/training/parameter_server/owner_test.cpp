#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/parameter_server/server_training.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Two strategies whose variables, optimizers and workers have the same numbers.

namespace troupe {
namespace {

using test::server_node, test::without_secret;

/// Returns the error of a call that breaks a rule.
std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "none";
}

models::model_description line() {
  return {
    .name = "line", .input = {2}, .layers = models::stack(models::dense{3})};
}

data::dataset batches(int examples, int rows = 2) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < examples; ++i)
    labels.push_back(i % 3);
  return data::dataset{tensor::full({examples, 2}, 1),
                       tensor::of<std::int32_t>({examples}, labels), 3}
    .batch(rows);
}

class TwoStrategies : public ::testing::Test {
protected:
  float a() const { return in_first.value().data<float>()[0]; }
  float b() const { return in_second.value().data<float>()[0]; }

  /// Returns the error of a closure of the second strategy.
  std::string error_in_closure(const std::function<void()>& fn) {
    return error_of([&] {
      coordinator.schedule(fn);
      coordinator.join();
    });
  }

  /// Checks that an error names a handle and both strategies.
  void expect_names(const std::string& error, const std::string& handle) {
    for (const auto& part : {handle, first.name(), second.name()})
      EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_EQ(a(), 1);
    EXPECT_EQ(b(), 200);
  }

  runtime actors;
  const parameter_server_strategy first{actors}, second{actors};
  const server_variable in_first{
    first.make_variable("a", tensor::full({2}, 1))};
  const server_variable in_second{
    second.make_variable("b", tensor::full({2}, 200))};
  cluster_coordinator coordinator{second};
};

TEST_F(TwoStrategies, HaveDifferentNames) {
  EXPECT_NE(first.name(), second.name());
}

TEST_F(TwoStrategies, AClosureOfOneCannotUseAVariableOfTheOther) {
  const auto ids = tensor::of<std::int64_t>({1}, {0});
  for (const auto& use : std::vector<std::function<void()>>{
         [&] { in_first.value(); },
         [&] { in_first.lookup(ids); },
         [&] { in_first.assign(3.0); },
         [&] { in_first.assign_add(3.0); },
         [&] { in_first.scatter_add(ids, tensor::full({1}, 1)); },
       })
    expect_names(error_in_closure(use), "\"a\"");
  // Its own variables work, also after the errors.
  EXPECT_EQ(error_in_closure([&] { in_second.assign_add(0.0); }), "none");
}

TEST_F(TwoStrategies, AClosureOfOneCannotUseATableOfTheOther) {
  const auto table = first.make_table("t", {.rows = 4, .row_elements = 2});
  second.make_table("u", {.rows = 4, .row_elements = 2});
  const auto ids = tensor::of<std::int64_t>({1}, {0});
  expect_names(error_in_closure([&] { table.lookup(ids); }), "\"t\"");
}

TEST_F(TwoStrategies, AnOptimizerOfOneCannotUpdateAVariableOfTheOther) {
  const server_optimizer of_first{first, sgd{.learning_rate = 1}};
  const server_optimizer of_second{second, sgd{.learning_rate = 100}};
  const std::vector<tensor> gradients{tensor::full({2}, 1)};
  const std::vector all{in_second};
  for (const auto& use : std::vector<std::function<void()>>{
         [&] { of_first.apply(gradients, all); },
         [&] { of_first.contribute(gradients[0], in_second, 0, 0); },
         [&] { of_first.apply_contributions(in_second, 0, {}); },
         [&] { of_first.state_of(in_second); },
         [&] { of_first.restore(in_second, {}); },
       })
    expect_names(error_of(use), "sgd");
  expect_names(error_in_closure([&] { of_first.apply(gradients, all); }),
               "sgd");
}

TEST_F(TwoStrategies, AModelOfOneCannotBeTrainedByACoordinatorOfTheOther) {
  server_model of_first{first, "p", line(), sgd{.learning_rate = 1}};
  const server_model of_second{second, "q", line(), sgd{.learning_rate = 1}};
  const auto before = of_second.weights_sha256();
  expect_names(error_of([&] { of_first.fit(coordinator, batches(6)); }),
               "\"p\"");
  expect_names(error_of([&] { of_first.evaluate(coordinator, batches(6)); }),
               "\"p\"");
  EXPECT_EQ(of_second.weights_sha256(), before);
}

TEST_F(TwoStrategies, WorkersOfOneCannotReadADatasetOfTheOther) {
  const cluster_coordinator of_first{first};
  const auto dataset = of_first.create_per_worker_dataset(batches(6));
  const auto value =
    of_first.create_per_worker([](std::uint32_t) { return 1; });
  expect_names(error_of([&] {
                 coordinator.schedule([](worker_dataset& x) { x.next(); },
                                      dataset);
                 coordinator.join();
               }),
               "dataset");
  expect_names(error_of([&] {
                 coordinator.schedule([](int& x) { return x; }, value);
                 coordinator.join();
               }),
               "value");
}

TEST_F(TwoStrategies, ACoordinatorCannotWaitForAClosureOfTheOther) {
  cluster_coordinator of_first{first};
  const std::vector some{of_first.schedule([] { return 1; })};
  const auto error = error_of([&] {
    coordinator.wait_for_some<int>(some, 1, std::chrono::milliseconds{1});
  });
  EXPECT_NE(error.find("another coordinator"), std::string::npos) << error;
  EXPECT_EQ(some[0].get(), 1);
}

/// A second coordinator of a strategy has workers with the same numbers, which
/// go on with their elements. What was read for a closure that does not count
/// is read again.
TEST(NextCoordinator, ReadsTheElementsThatDidNotCount) {
  runtime actors;
  const parameter_server_strategy strategy{actors};
  auto first = std::make_unique<cluster_coordinator>(strategy);
  const auto dataset = first->create_per_worker_dataset(batches(6));
  std::size_t elements = 0;
  const auto count = [&](cluster_coordinator& on) {
    on.schedule(
      [&](worker_dataset& x) {
        x.next();
        ++elements;
      },
      dataset);
    on.join();
  };
  count(*first);
  first.reset();
  cluster_coordinator second{strategy};
  count(second);
  count(second);
  EXPECT_EQ(elements, 3u);
  EXPECT_THROW(count(second), end_of_dataset);
}

/// The number of an optimizer that a worker on a node makes for a model is that
/// of the model, and not that of an earlier model with the same rule.
TEST(ModelOnNodes, HasAnOptimizerOfItsOwn) {
  server_node place;
  register_server_training(
    place.actors,
    [](const std::string&) {
      return server_training{.name = "second",
                             .architecture = line(),
                             .rule = adam{},
                             .batches = batches(12)};
    },
    without_secret());
  runtime actors;
  const parameter_server_strategy strategy{
    actors, {.nodes = {place.address()}, .node_connection = without_secret()}};
  const server_model first{strategy, "first", line(), adam{}};
  server_model second{strategy, "second", line(), adam{}};
  cluster_coordinator coordinator{strategy,
                                  {.nodes = {place.address()},
                                   .closures = server_training_closures,
                                   .node_connection = without_secret()}};
  second.fit(coordinator, batches(12));
  model alone{line(), adam{}}, copy{line(), adam{}};
  alone.fit(batches(12));
  ASSERT_TRUE(second.copy_to(copy));
  EXPECT_EQ(copy.weights_sha256(), alone.weights_sha256());
  copy.fit(batches(12)); // with the slots
  alone.fit(batches(12));
  EXPECT_EQ(copy.weights_sha256(), alone.weights_sha256());
}

TEST(OneCoordinator, TrainsForOneThreadAtATime) {
  runtime actors;
  const parameter_server_strategy strategy{actors};
  cluster_coordinator coordinator{strategy};
  server_model a{strategy, "a", line(), sgd{}}, b{strategy, "b", line(), sgd{}};
  std::latch begun{1}, refused{1};
  const auto waiting = batches(6).map([&](const batch& x) {
    if (!begun.try_wait()) {
      begun.count_down();
      refused.wait();
    }
    return x;
  });
  auto trained =
    std::async(std::launch::async, [&] { return a.fit(coordinator, waiting); });
  begun.wait();
  const auto error = error_of([&] { b.fit(coordinator, batches(6)); });
  EXPECT_NE(error.find("another thread"), std::string::npos) << error;
  EXPECT_NE(error_of([&] { b.evaluate(coordinator, batches(6)); }), "none");
  refused.count_down();
  EXPECT_EQ(trained.get().epochs.size(), 1u);
  EXPECT_EQ(a.steps(), 3u);
  EXPECT_EQ(b.steps(), 0u);
  // On one thread a callback can train another model.
  a.fit(coordinator, batches(6), {.on_epoch_end = [&](const epoch_record&) {
          b.fit(coordinator, batches(6));
        }});
  EXPECT_EQ(b.steps(), 3u);
}

TEST(OneCoordinator, TrainsWhenItsClosuresAreDone) {
  runtime actors;
  const parameter_server_strategy strategy{actors};
  cluster_coordinator coordinator{strategy};
  server_model a{strategy, "a", line(), sgd{}};
  std::latch refused{1};
  coordinator.schedule([&] { refused.wait(); });
  const auto error = error_of([&] { a.fit(coordinator, batches(6)); });
  refused.count_down();
  EXPECT_NE(error.find("call join first"), std::string::npos) << error;
  coordinator.join();
  a.fit(coordinator, batches(6));
  EXPECT_EQ(a.steps(), 3u);
}

} // namespace
} // namespace troupe

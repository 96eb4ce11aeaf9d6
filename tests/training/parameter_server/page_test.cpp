// The program of docs/parameter-servers.md.

#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using troupe::tensor;

/// Returns 64 examples of y = 2 x + 1.
troupe::data::dataset line() {
  tensor x{{64, 1}}, y{{64, 1}};
  for (std::size_t i = 0; i < 64; ++i) {
    const auto at = float(i) / 32 - 1;
    x.mutable_data<float>()[i] = at;
    y.mutable_data<float>()[i] = 2 * at + 1;
  }
  return {x, y};
}

TEST(ParameterServersPage, TrainsALine) {
  const auto examples = line();
  // [doc:begin train]
  troupe::runtime actors;
  const troupe::parameter_server_strategy strategy{
    actors, {.servers = 2, .workers = 3}};
  const std::vector variables{
    strategy.make_variable("w", tensor::zeros({1, 1})),
    strategy.make_variable("b", tensor::zeros({1}))};
  const troupe::server_optimizer optimizer{strategy,
                                           troupe::sgd{.learning_rate = 0.1f}};

  troupe::cluster_coordinator coordinator{strategy};
  const auto batches =
    coordinator.create_per_worker_dataset([&](std::uint32_t worker) {
      return examples.shuffle(64, worker).repeat().batch(16);
    });
  const auto step = [&](troupe::worker_dataset& from) {
    const auto batch = from.next();
    troupe::tape tape;
    const std::vector<tensor> values{tape.watch(variables[0].value()),
                                     tape.watch(variables[1].value())};
    const auto error = batch.inputs * values[0] + values[1] - batch.labels;
    const auto loss = troupe::reduce_mean(error * error);
    optimizer.apply(tape.gradient(loss, values), variables);
    return loss.item<float>();
  };
  std::vector<troupe::remote_value<float>> losses;
  for (int i = 0; i < 500; ++i)
    losses.push_back(coordinator.schedule(step, batches));
  coordinator.join();
  const auto last = losses.back().get();
  // [doc:end]
  EXPECT_LT(last, 0.01);
  EXPECT_NEAR(variables[0].value().item<float>(), 2, 0.1);
  EXPECT_NEAR(variables[1].value().item<float>(), 1, 0.1);
}

TEST(ParameterServersPage, ChangesRowsOfATable) {
  troupe::runtime actors;
  const troupe::parameter_server_strategy strategy{actors, {.servers = 2}};
  const troupe::server_optimizer optimizer{strategy,
                                           troupe::sgd{.learning_rate = 0.5f}};
  // [doc:begin table]
  const auto users = strategy.make_table(
    "users", {.rows = 4'000'000'000, .row_elements = 16, .seed = 1});
  const auto step = [&](const tensor& ids, const tensor& wanted) {
    const auto rows = users.lookup(ids);
    const troupe::sparse_rows gradient{users.spec().dims, ids, rows - wanted};
    optimizer.apply(std::vector<troupe::parameter_gradient>{gradient},
                    std::vector{users});
  };
  // [doc:end]
  const auto ids = tensor::of<std::int64_t>({2}, {3'999'999'999, 7});
  for (int i = 0; i < 60; ++i)
    step(ids, tensor::full({2, 16}, 3));
  for (const auto x : users.lookup(ids).data<float>())
    EXPECT_NEAR(x, 3, 1e-5);
}

} // namespace

#include "clusters.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/training/loop/optimizer.hpp"

#include <gtest/gtest.h>

#include <tuple>

// Workers with one device each. The device runs the kernels of the CPU, so all
// results have the bits of one process on the CPU.

namespace {

using namespace troupe;
using namespace troupe::test;

/// Calls `fn(strategy)` on each worker of a cluster, and expects that it
/// returns `want`.
template <class F, class T>
void expect_on_devices(std::uint32_t workers, const F& fn, const T& want) {
  simulated_devices devices;
  multi_worker_options options;
  options.devices = {"cuda:0"};
  std::vector<T> found(workers);
  expect_nothing_thrown(
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      found[w] = fn(on);
    }));
  for (const auto& one : found)
    EXPECT_EQ(one, want);
}

TEST(DeviceWorkers, FitHasTheBitsOfTheCpu) {
  for (const std::uint32_t workers : {2, 3})
    expect_on_devices(workers, weights_after_fit,
                      weights_after_fit(turns(workers)));
}

TEST(DeviceWorkers, FrozenVariablesAndSkippedStepsHaveTheBitsOfTheCpu) {
  const auto run = [](const strategy& on) {
    auto all = digits_200().examples(0, 80);
    auto inputs = all.inputs.clone();
    inputs.mutable_data<float>()[784 * 30] =
      std::numeric_limits<float>::quiet_NaN();
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 2, .on_nan = on_nan::skip};
    how.trainable = [](const variable& x) { return x.dims().rank() == 2; };
    it.fit(data::dataset{inputs, all.labels, 10}.batch(20), how);
    return it.weights_sha256();
  };
  expect_on_devices(2, run, run(turns(2)));
}

/// The gradients are finite, so only the loss of one replica tells.
TEST(DeviceWorkers, AnInfiniteLossOfOneReplicaIsSkipped) {
  models::register_loss(
    {"infinite_loss_of_the_device_workers_test", models::target_kind::any,
     [](const tensor& outputs, const tensor& labels) {
       const auto huge = labels.as(dtype::float32) * 1e38;
       return models::cross_entropy(outputs, (labels * 0.0).as(dtype::int32))
              + huge * 9;
     }});
  const auto run = [](const strategy& on) {
    auto some = digits_200().examples(0, 8);
    auto labels = tensor::full({8}, 0);
    labels.mutable_data<float>()[6] = 1; // of the last replica
    const auto scope = on.scope();
    model it{
      small_net(), sgd{}, {.loss = "infinite_loss_of_the_device_workers_test"}};
    const auto before = it.weights_sha256();
    it.fit(data::dataset{some.inputs, labels}.batch(8),
           {.on_nan = on_nan::skip});
    EXPECT_EQ(it.weights_sha256(), before);
    return it.weights_sha256();
  };
  expect_on_devices(2, run, run(turns(2)));
}

TEST(DeviceWorkers, EvaluationHasTheBitsOfTheCpu) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    const auto x = it.evaluate(digits_200().batch(48));
    const auto y = it.predict(digits_200().examples(0, 9).inputs);
    return std::tuple{x.loss, x.accuracy, x.examples, y.data<float>()[89]};
  };
  expect_on_devices(2, run, run(turns(2)));
}

TEST(DeviceWorkers, ALoopHasTheBitsOfTheCpu) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    optimizer own{adam{}};
    double losses = 0;
    for (const auto& step : on.distribute(uneven_batches())) {
      const auto loss = on.run(
        [&](replica_context& self, const batch& mine) {
          EXPECT_EQ(mine.labels.device(), self.device());
          tape t;
          auto loss = models::cross_entropy(it(mine.inputs, {.training = true}),
                                            mine.labels)
                      / 16;
          own.apply(self.all_reduce(sum, t.gradient(loss, it.variables())),
                    it.variables());
          return loss;
        },
        step);
      losses += double(on.reduce(sum, loss, {0}).data<float>()[0]);
      losses += double(on.gather(loss, 0).data<float>()[1]);
    }
    return std::pair{it.weights_sha256(), losses};
  };
  expect_on_devices(2, run, run(turns(2)));
}

} // namespace

#include "losses.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/training/loop/feed/batch_feed.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

// Processes with one device or several. The devices run the kernels of the CPU,
// so all results have the bits of one process on the CPU.

namespace {

using namespace troupe;
using namespace troupe::test;

/// Calls `fn(strategy)` on each worker of a cluster, and expects that it
/// returns `want`.
template <class F, class T>
void expect_on_workers(std::uint32_t workers,
                       const std::vector<std::string>& devices_of_each,
                       const F& fn, const T& want) {
  const simulated_devices devices;
  multi_worker_options options;
  options.devices = devices_of_each;
  std::vector<T> found(workers);
  expect_nothing_thrown(
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      found[w] = fn(on);
    }));
  for (const auto& one : found)
    EXPECT_EQ(one, want);
}

/// Expects that `fn(strategy)` returns the same on devices as with as many
/// replicas on the CPU. The devices are one for each of several processes, or
/// two for each of one or two.
template <class F>
void expect_on_devices(const F& fn) {
  const auto want = fn(turns(2));
  expect_on_workers(2, {"cuda:0"}, fn, want);
  expect_on_workers(3, {"cuda:0"}, fn, fn(turns(3)));
  expect_on_workers(2, {"cuda:0", "cuda:1"}, fn, fn(turns(4)));
  const simulated_devices devices;
  runtime actors;
  EXPECT_EQ(fn(mirrored_strategy{actors, {"cuda:0", "cuda:1"}}), want);
}

TEST(DeviceWorkers, FitHasTheBitsOfTheCpu) {
  expect_on_devices(weights_after_fit);
}

TEST(DeviceWorkers, StepsHaveNoGraph) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.fit(uneven_batches(), {.epochs = 2, .graph = graph_capture::on});
    auto* const backend = find_device_backend(device_kind::cuda);
    if (const auto* devices = dynamic_cast<simulated_devices*>(backend)) {
      EXPECT_EQ(devices->captures, 0);
    }
    return it.weights_sha256();
  };
  expect_on_devices(run);
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
  expect_on_devices(run);
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
  expect_on_devices(run);
}

TEST(DeviceWorkers, EvaluationHasTheBitsOfTheCpu) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    const auto x = it.evaluate(digits_200().batch(48));
    const auto y = it.predict(digits_200().examples(0, 9).inputs);
    return std::tuple{x.loss, x.accuracy, x.examples, y.data<float>()[89]};
  };
  expect_on_devices(run);
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
  expect_on_devices(run);
}

TEST(SeveralDevices, HaveACopyOfTheVariablesEach) {
  const simulated_devices devices;
  runtime actors;
  const mirrored_strategy on{actors, {"cuda:1", "cuda:0"}};
  const auto scope = on.scope();
  const auto it = small_model();
  EXPECT_EQ(it.variables()[0].copies(), 2u);
  const auto found = on.run([&](replica_context& self) {
    EXPECT_EQ(it.variables()[0].device(), self.device());
    EXPECT_EQ(it.variables()[0].gradient().device(), self.device());
    return tensor::of<std::int64_t>({}, {std::int64_t(self.device().index)});
  });
  EXPECT_EQ(found.values()[0].item<std::int64_t>(), 1);
  EXPECT_EQ(found.values()[1].item<std::int64_t>(), 0);
}

/// Each device gets the rows of its replica, not the whole batch.
TEST(SeveralDevices, GetTheRowsOfTheirReplicas) {
  const simulated_devices devices;
  runtime actors;
  const mirrored_strategy on{actors, {"cuda:0", "cuda:1"}};
  const auto& group = *on.state()->group;
  batch_feed feed{digits_200().batch(9).prefetch(2), {}, 0, group, {},
                  on.state()->tensor_devices()};
  const auto whole = digits_200().examples(0, 9);
  for (std::uint32_t r = 0; r < 2; ++r) {
    const auto got = feed.batch_of_step(0, r);
    EXPECT_EQ(got.on_device.first.rows.inputs.device(),
              (device{device_kind::cuda, r}));
    EXPECT_EQ(got.on_device.first.rows.rows(), r == 0 ? 5 : 4);
    EXPECT_TRUE(same_bits(got.on_device.batch_of_replica(r, 2).inputs,
                          whole.inputs.slice(r == 0 ? 0 : 5, r == 0 ? 5 : 9)));
  }
}

/// The devices take the replicas in turn if there are more of them.
TEST(SeveralDevices, RunTheReplicasOfALostWorker) {
  const simulated_devices devices;
  multi_worker_options options;
  options.devices = {"cuda:0", "cuda:1"};
  std::array<std::string, 3> found;
  const auto thrown =
    run_on_cluster(3, options, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 1 && x.step == 3)
          cut_off(on);
      }});
      it.fit(uneven_batches(), how);
      EXPECT_EQ(on.local_replica_ids().size(), 3u);
      on.run([&](replica_context& self) {
        const auto index =
          on.state()->placement.job.index_of(self.replica_id());
        EXPECT_EQ(it.variables()[0].device().index, index % 2);
      });
      found[w] = it.weights_sha256();
    });
  EXPECT_NE(exception_text(thrown[1]), "");
  for (const std::uint32_t w : {0, 2}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(found[w], weights_after_fit(turns(6)));
  }
}

} // namespace

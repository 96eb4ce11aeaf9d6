#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

// The device runs the kernels of the CPU, so a model on it has the bits of one
// on the CPU. Code that reads its memory on the host crashes.

namespace {

using namespace troupe;
using namespace troupe::test;

one_device_strategy turns_on(const std::string& device,
                             std::uint32_t replicas = 1) {
  return one_device_strategy{device, {.replicas = replicas}};
}

using test::text_of;

/// 60 digits in batches of 16, of which the last is short.
data::dataset digit_batches() {
  return digits_200().take(60).batch(16);
}

/// More images than `predict` computes at once.
tensor many_images() {
  static const auto all = data::digits({.examples = 300, .seed = 3});
  return all.examples(0, 300).inputs;
}

/// What a program sees of a model and a fit.
struct outcome {
  std::string sha256;
  std::vector<double> numbers;
  tensor predicted;
};

void expect_equal(const outcome& got, const outcome& want) {
  EXPECT_EQ(got.sha256, want.sha256);
  EXPECT_EQ(got.numbers, want.numbers);
  EXPECT_EQ(got.predicted.device(), device{});
  EXPECT_TRUE(same_bits(got.predicted, want.predicted));
}

outcome outcome_of(model& it, const history& seen = {}) {
  outcome out;
  out.sha256 = it.weights_sha256();
  for (const auto& x : seen.epochs) {
    out.numbers.push_back(x.loss);
    for (const auto& metric : x.metrics)
      out.numbers.push_back(metric.value);
  }
  const auto found = it.evaluate(digit_batches());
  out.numbers.push_back(found.loss);
  out.numbers.push_back(found.accuracy);
  out.predicted = it.predict(many_images());
  return out;
}

outcome fitted(const strategy& on, const models::model_description& net,
               const update_rule& rule, const fit_options& options = {}) {
  const auto scope = on.scope();
  model it{net, rule};
  EXPECT_EQ(it.variables()[0].device(),
            on.devices()[0].kind == device_kind::cpu ? device{} : gpu);
  const auto seen = it.fit(digit_batches(), options);
  return outcome_of(it, seen);
}

const std::vector<update_rule> rules{sgd{},
                                     sgd{.momentum = 0.9f},
                                     sgd{.momentum = 0.9f, .nesterov = true},
                                     adam{},
                                     adamw{},
                                     adagrad{},
                                     ftrl{}};

TEST(DeviceTraining, InitialWeightsHaveTheBitsOfTheCpu) {
  simulated_devices devices;
  const auto hash_on = [](const std::string& name) {
    const auto strategy = turns_on(name);
    const auto scope = strategy.scope();
    return model{models::mlp(), sgd{}}.weights_sha256();
  };
  EXPECT_EQ(hash_on("cuda:0"), hash_on("cpu:0"));
}

TEST(DeviceTraining, FitHasTheBitsOfTheCpu) {
  simulated_devices devices;
  for (const auto& rule : rules)
    for (const std::uint32_t replicas : {1, 2, 4}) {
      SCOPED_TRACE(std::string{rule.name()} + ", " + std::to_string(replicas)
                   + " replicas");
      const auto net = small_net(/*with_dropout*/ true);
      const fit_options options{.epochs = 2};
      expect_equal(fitted(turns_on("gpu:0", replicas), net, rule, options),
                   fitted(turns_on("cpu:0", replicas), net, rule, options));
    }
}

TEST(DeviceTraining, ConvolutionsHaveTheBitsOfTheCpu) {
  simulated_devices devices;
  const auto net = models::parse(
    R"({"version": 1, "name": "lenet-like", "input": [28, 28, 1], "layers": [
        {"type": "conv2d", "filters": 4, "kernel": 5, "activation": "relu"},
        {"type": "max_pool2d"},
        {"type": "conv2d", "filters": 6, "kernel": 3, "activation": "relu"},
        {"type": "flatten"}, {"type": "dense", "units": 10}]})",
    "the test");
  for (const std::uint32_t replicas : {1, 2})
    expect_equal(
      fitted(turns_on("cuda:0", replicas), net, sgd{.momentum = 0.9f}),
      fitted(turns_on("cpu:0", replicas), net, sgd{.momentum = 0.9f}));
}

TEST(DeviceTraining, AnActorTrainsOnADevice) {
  simulated_devices devices;
  runtime actors;
  expect_equal(
    fitted(mirrored_strategy{actors, {"cuda:0"}}, small_net(), adam{}),
    fitted(mirrored_strategy{actors, {"cpu:0"}}, small_net(), adam{}));
}

/// Waiting for the device is what a step costs on the host.
TEST(DeviceTraining, AStepWaitsOnceForTheDevice) {
  for (const std::uint32_t replicas : {1, 2}) {
    simulated_devices devices;
    const auto strategy = turns_on("cuda:0", replicas);
    const auto scope = strategy.scope();
    model it{small_net(), adam{}};
    it.fit(digit_batches(), {.epochs = 2});
    constexpr int steps = 2 * 4;
    EXPECT_EQ(devices.waits, steps);
    EXPECT_EQ(devices.updates, steps);
    EXPECT_EQ(devices.checks, steps * int(replicas + 1))
      << "the losses of each replica, and the sum of the gradients";
    const auto copies_to_host = [&](std::uint64_t epochs) {
      const int before = devices.copies_to_host;
      it.fit(digit_batches(), {.epochs = epochs});
      return devices.copies_to_host - before;
    };
    EXPECT_EQ(copies_to_host(1), copies_to_host(3)) << "a step makes none";
  }
}

/// The metrics are computed when the device has got the update. The next fit
/// shows that the step counts: the updates of Adam depend on its number.
TEST(DeviceTraining, AStepWhoseMetricThrowsCounts) {
  simulated_devices devices;
  for (const std::uint32_t replicas : {1, 2}) {
    const auto strategy = turns_on("cuda:0", replicas);
    const auto scope = strategy.scope();
    int calls = 0;
    const models::metric own{
      .name = "own",
      .add = [&](const tensor&, const tensor&, std::span<double> sums) {
        if (++calls == 2 * int(replicas))
          throw std::runtime_error("no metric");
        sums[1] += 1;
      }};
    model it{small_net(), adam{}}, other{small_net(), adam{}};
    EXPECT_EQ(text_of([&] { it.fit(digit_batches(), {.metrics = {{own}}}); }),
              "no metric");
    other.fit(digit_batches(), {.max_steps = 2});
    EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
    const fit_options again{.first_epoch = 0};
    it.fit(digit_batches(), again);
    other.fit(digit_batches(), again);
    EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
  }
}

/// The batches that a thread has read are the same.
TEST(DeviceTraining, PrefetchingChangesNoBit) {
  simulated_devices devices;
  for (const std::size_t count : {0, 1, 5})
    expect_equal(
      fitted(turns_on("cuda:0", 2), small_net(), adam{},
             {.epochs = 2, .prefetch = count}),
      fitted(turns_on("cpu:0", 2), small_net(), adam{}, {.epochs = 2}));
}

TEST(DeviceTraining, FrozenVariablesKeepTheirBits) {
  simulated_devices devices;
  const auto is_weight = [](const variable& x) { return x.dims().rank() == 2; };
  for (const std::uint32_t replicas : {1, 2})
    expect_equal(fitted(turns_on("cuda:0", replicas), small_net(), adam{},
                        {.trainable = is_weight}),
                 fitted(turns_on("cpu:0", replicas), small_net(), adam{},
                        {.trainable = is_weight}));
}

TEST(DeviceTraining, WeightsOfClassesAndUnequalSharesHaveTheBitsOfTheCpu) {
  simulated_devices devices;
  const fit_options options{.class_weights = {1, 2, 3, 0, 1, 2, 3, 1, 0.5f, 2},
                            .replica_shares = {3, 1}};
  expect_equal(fitted(turns_on("cuda:0", 2), small_net(), adam{}, options),
               fitted(turns_on("cpu:0", 2), small_net(), adam{}, options));
}

TEST(DeviceTraining, WeightsOfExamplesHaveTheBitsOfTheCpu) {
  simulated_devices devices;
  const auto hash_on = [](const std::string& name) {
    const auto weighted = digit_batches().map([](batch x) {
      x.others.push_back(
        {"weights", tensor::full({x.rows()}, 0.25, dtype::float64)});
      return x;
    });
    const auto strategy = turns_on(name, 2);
    const auto scope = strategy.scope();
    model it{small_net(), adam{}};
    it.fit(weighted);
    return it.weights_sha256();
  };
  EXPECT_EQ(hash_on("cuda:0"), hash_on("cpu:0"));
}

TEST(DeviceTraining, MetricsOfAProgramGetTensorsOnTheCpu) {
  simulated_devices devices;
  const models::metric own{.name = "own",
                           .add = [](const tensor& outputs,
                                     const tensor& labels,
                                     std::span<double> sums) {
                             sums[0] += outputs.data<float>()[0];
                             sums[1] += labels.data<std::int32_t>()[0] + 1;
                           }};
  const fit_options options{.metrics = {{own, models::accuracy_metric()}}};
  expect_equal(fitted(turns_on("cuda:0"), small_net(), adam{}, options),
               fitted(turns_on("cpu:0"), small_net(), adam{}, options));
}

TEST(DeviceTraining, RegressionHasTheBitsOfTheCpu) {
  simulated_devices devices;
  const auto hash_on = [](const std::string& name) {
    const auto strategy = turns_on(name, 2);
    const auto scope = strategy.scope();
    const auto x = digits_200().examples(0, 40).inputs;
    const data::dataset values{x, tensor::full({40, 10}, 0.5)};
    model it{small_net(), adam{}, {.loss = "mean_absolute_error"}};
    const auto seen = it.fit(
      values.batch(8), {.metrics = {{models::mean_absolute_error_metric()}}});
    EXPECT_GT(seen.epochs[0].metrics[0].value, 0);
    return it.weights_sha256();
  };
  EXPECT_EQ(hash_on("cuda:0"), hash_on("cpu:0"));
}

/// The loss rises after the second epoch, because the learning rate does.
TEST(DeviceTraining, EarlyStoppingRestoresTheBestWeights) {
  simulated_devices devices;
  const auto run = [](const std::string& name) {
    const auto strategy = turns_on(name, 2);
    const auto scope = strategy.scope();
    model it{small_net(), sgd{.learning_rate = 0.1f}};
    std::vector<std::string> by_epoch;
    fit_options options{.epochs = 6, .validation = digit_batches()};
    options.early_stopping = {{.patience = 2}};
    options.callbacks = {{.on_epoch_end = [&](const epoch_record& x) {
      by_epoch.push_back(it.weights_sha256());
      if (x.epoch == 2)
        it.optimizer().set_learning_rate(50);
    }}};
    const auto seen = it.fit(digit_batches(), options);
    EXPECT_EQ(seen.end, fit_end::stopped_early);
    EXPECT_LT(seen.best_epoch, by_epoch.size());
    EXPECT_EQ(it.weights_sha256(), by_epoch[seen.best_epoch - 1]);
    return outcome_of(it, seen);
  };
  expect_equal(run("cuda:0"), run("cpu:0"));
}

using DeviceFiles = scratch_test;

/// The file is read on another kind of device than it was written on.
TEST_F(DeviceFiles, AFitIsResumedOnAnotherDevice) {
  simulated_devices devices;
  fit_options options{.epochs = 3, .validation = digit_batches()};
  options.early_stopping = {{.patience = 9}};
  const auto want = fitted(turns_on("cpu:0", 2), small_net(), adam{}, options);
  for (const auto& [first, second] : {std::pair{"cuda:0", "cpu:0"},
                                      {"cpu:0", "cuda:0"},
                                      {"cuda:0", "cuda:0"}}) {
    SCOPED_TRACE(std::string{first} + ", then " + second);
    const auto file = folder / "interrupted.troupe";
    {
      const auto strategy = turns_on(first, 2);
      const auto scope = strategy.scope();
      model it{small_net(), adam{}};
      auto half = options;
      half.max_steps = 6;
      EXPECT_EQ(it.fit(digit_batches(), half).end, fit_end::max_steps);
      it.save(file);
    }
    const auto strategy = turns_on(second, 2);
    const auto scope = strategy.scope();
    auto it = model::load(file);
    auto rest = options;
    rest.resume = true;
    expect_equal(outcome_of(it, it.fit(digit_batches(), rest)), want);
  }
}

// -- steps that are skipped ---------------------------------------------------

/// Batches of 20 digits. The first pixels of batch 1 are `value`.
data::dataset with_pixel(float value) {
  auto all = digits_200().examples(0, 80);
  auto inputs = all.inputs.clone();
  for (std::size_t i = 20; i < 40; ++i)
    inputs.mutable_data<float>()[784 * i] = value;
  return data::dataset{inputs, all.labels, 10}.batch(20);
}

TEST(DeviceTraining, NonFiniteGradientsAreSkipped) {
  simulated_devices devices;
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), 3e38f})
    for (const std::uint32_t replicas : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(value) + ", " + std::to_string(replicas));
      const auto run = [&](const std::string& name) {
        const auto strategy = turns_on(name, replicas);
        const auto scope = strategy.scope();
        model it{small_net(), adam{}};
        std::vector<bool> skipped;
        fit_options options{.on_nan = on_nan::skip};
        options.callbacks = {{.on_step = [&](const step_record& x) {
          skipped.push_back(x.skipped);
        }}};
        const auto seen = it.fit(with_pixel(value), options);
        EXPECT_EQ(skipped, (std::vector<bool>{false, true, false, false}));
        return outcome_of(it, seen);
      };
      expect_equal(run("cuda:0"), run("cpu:0"));
    }
}

TEST(DeviceTraining, ANonFiniteGradientStopsWithThePreviousWeights) {
  simulated_devices devices;
  const auto strategy = turns_on("cuda:0", 2);
  const auto scope = strategy.scope();
  model it{small_net(), adam{}};
  EXPECT_NE(text_of([&] {
              it.fit(with_pixel(3e38f));
            }).find("a gradient was not finite at step 1;"),
            std::string::npos);
  model good{small_net(), adam{}};
  good.fit(with_pixel(3e38f), {.max_steps = 1});
  EXPECT_EQ(it.weights_sha256(), good.weights_sha256());
}

/// The gradients are finite, so only the loss tells.
TEST(DeviceTraining, AnInfiniteLossIsSkipped) {
  simulated_devices devices;
  models::register_loss({"infinite_loss_of_the_device_test",
                         models::target_kind::classes,
                         [](const tensor& outputs, const tensor& labels) {
                           return models::cross_entropy(outputs, labels)
                                  + std::numeric_limits<double>::infinity();
                         }});
  for (const std::uint32_t replicas : {1, 2}) {
    const auto strategy = turns_on("cuda:0", replicas);
    const auto scope = strategy.scope();
    model it{small_net(), adam{}, {.loss = "infinite_loss_of_the_device_test"}};
    const auto before = it.weights_sha256();
    it.fit(digit_batches(), {.on_nan = on_nan::skip});
    EXPECT_EQ(it.weights_sha256(), before);
  }
}

/// The gradients are so large that only the sums can tell that all is well.
TEST(DeviceTraining, LargeFiniteGradientsAreApplied) {
  simulated_devices devices;
  models::register_loss({"huge_loss_of_the_device_test",
                         models::target_kind::classes,
                         [](const tensor& outputs, const tensor& labels) {
                           return models::cross_entropy(outputs, labels) * 3e37;
                         }});
  const auto run = [&](const std::string& name) {
    const auto strategy = turns_on(name, 4);
    const auto scope = strategy.scope();
    model it{small_net(),
             sgd{.learning_rate = 2e-38f},
             {.loss = "huge_loss_of_the_device_test"}};
    const auto before = it.weights_sha256();
    it.fit(digit_batches());
    EXPECT_NE(it.weights_sha256(), before);
    return it.weights_sha256();
  };
  const auto got = run("cuda:0");
  EXPECT_EQ(got, run("cpu:0"));
}

/// A table whose rows are the outputs. The examples are ids.
class id_layer : public models::layer {
public:
  std::string_view type() const override { return "id_of_the_device_test"; }
  shape build(const shape&, models::builder& b) const override {
    b.parameter("rows", {4, 10}, initializer{"uniform"});
    return {10};
  }
  tensor forward(const tensor& x,
                 const models::layer_scope& scope) const override {
    return embedding_lookup(scope[0],
                            x.as(dtype::int32).reshaped({x.dims().front()}));
  }
};

/// Returns three batches of ids, of which those of batch 1 are from `first` on.
data::dataset batches_of_ids(float first) {
  auto ids = tensor::zeros({12, 1});
  for (std::size_t i = 4; i < 8; ++i)
    ids.mutable_data<float>()[i] = first + float(i - 4);
  return data::dataset{ids, tensor::zeros({12}, dtype::int32), 10}.batch(4);
}

/// The kernels find such a value while `fit` gives the whole step to the
/// device. The next fit shows that the step does not count: the updates of Adam
/// depend on its number.
void expect_no_update(const models::model_description& net,
                      const data::dataset& good, const data::dataset& bad,
                      const std::string& error) {
  for (const std::uint32_t replicas : {1, 2}) {
    simulated_devices devices;
    const auto strategy = turns_on("cuda:0", replicas);
    const auto scope = strategy.scope();
    model it{net, adam{}}, other{net, adam{}};
    EXPECT_EQ(text_of([&] { it.fit(bad, {.on_nan = on_nan::skip}); }), error);
    other.fit(good, {.max_steps = 1});
    EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
    const fit_options again{.first_epoch = 0};
    it.fit(good, again);
    other.fit(good, again);
    EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
  }
}

TEST(DeviceTraining, AStepWithAnInvalidIdMakesNoUpdate) {
  models::register_layer<id_layer>();
  expect_no_update({"ids", {1}, models::stack(id_layer{})}, batches_of_ids(0),
                   batches_of_ids(3),
                   "embedding_lookup: id 1 is 4, but the table has 4 rows");
}

TEST(DeviceTraining, AStepWithAnInvalidLabelMakesNoUpdate) {
  const auto good = digits_200().take(60).batch(20);
  const auto second = digits_200().examples(20, 40).labels;
  const auto bad = good.map([second](batch x) {
    if (same_bits(x.labels, second)) {
      x.labels = x.labels.clone();
      x.labels.mutable_data<std::int32_t>()[3] = 12;
    }
    return x;
  });
  expect_no_update(small_net(), good, bad,
                   "label 12 in row 3; there are 10 classes, from 0");
}

// -- loops of a program -------------------------------------------------------

/// Trains with gradients that are reduced and clipped, by two optimizers.
/// @returns the sums of the losses, and the weights.
std::pair<std::vector<float>, tensors>
looped(const strategy& on, const update_rule& rule, reduce_op op) {
  const auto scope = on.scope();
  model it{small_net(/*with_dropout*/ true), rule};
  model with_own{small_net(), rule};
  optimizer own{rule};
  std::vector<float> losses;
  for (const auto& x : on.distribute(digit_batches())) {
    const auto loss = on.run(
      [&](replica_context& replica, const batch& b) {
        EXPECT_EQ(b.inputs.device(), replica.device());
        EXPECT_EQ(b.labels.device(), replica.device());
        tape t;
        auto loss =
          models::cross_entropy(it(b.inputs, {.training = true}), b.labels)
          / double(b.global_rows);
        auto gradients =
          replica.all_reduce(op, t.gradient(loss, it.variables()));
        parameter_gradients clipped{gradients.begin(), gradients.end()};
        clip_by_global_norm(clipped, 0.5);
        it.optimizer().apply(clipped, it.variables());
        tape other;
        const auto second = models::cross_entropy(with_own(b.inputs), b.labels);
        own.apply(
          replica.all_reduce(op, other.gradient(second, with_own.variables())),
          with_own.variables());
        EXPECT_EQ(replica.all_gather(b.labels).device(), replica.device());
        EXPECT_EQ(replica.broadcast(b.labels).device(), replica.device());
        return loss;
      },
      x);
    const auto total = on.reduce(sum, loss, {0});
    losses.push_back(total.data<float>()[0]);
    const auto all = on.gather(loss, 0);
    losses.insert(losses.end(), all.data<float>().begin(),
                  all.data<float>().end());
  }
  tensors weights;
  for (const auto* m : {&it, &with_own})
    for (const auto& x : m->variables())
      weights.push_back(x.value().detach().to({}));
  return {losses, weights};
}

TEST(DeviceLoop, HasTheBitsOfTheCpu) {
  simulated_devices devices;
  for (const auto op : {sum, mean})
    for (const auto& rule : rules)
      for (const std::uint32_t replicas : {1, 2, 4}) {
        SCOPED_TRACE(std::string{rule.name()} + ", " + std::to_string(replicas)
                     + " replicas");
        const auto got = looped(turns_on("cuda:0", replicas), rule, op);
        const auto want = looped(turns_on("cpu:0", replicas), rule, op);
        EXPECT_EQ(got.first, want.first);
        ASSERT_EQ(got.second.size(), want.second.size());
        for (std::size_t i = 0; i < got.second.size(); ++i)
          EXPECT_TRUE(same_bits(got.second[i], want.second[i])) << i;
      }
}

TEST(DeviceLoop, AnActorHasTheBitsOfTheCpu) {
  simulated_devices devices;
  runtime actors;
  const auto got = looped(mirrored_strategy{actors, {"cuda:0"}}, adam{}, sum);
  const auto want = looped(mirrored_strategy{actors, {"cpu:0"}}, adam{}, sum);
  EXPECT_EQ(got.first, want.first);
  for (std::size_t i = 0; i < want.second.size(); ++i)
    EXPECT_TRUE(same_bits(got.second[i], want.second[i])) << i;
}

TEST(DeviceLoop, OtherGradientsOfAReplicaAreNamed) {
  simulated_devices devices;
  const auto strategy = turns_on("cuda:0", 2);
  const auto scope = strategy.scope();
  model it{small_net(), sgd{}};
  const auto text = text_of([&] {
    strategy.run([&](replica_context& replica) {
      tensors gradients;
      for (const auto& x : it.variables())
        gradients.push_back(
          tensor::full(x.dims(), replica.replica_id(), dtype::float32, gpu));
      it.optimizer().apply(gradients, it.variables());
    });
  });
  EXPECT_NE(text.find("replica 1 has other values than replica 0"),
            std::string::npos)
    << text;
}

/// Sparse gradients are made on the device, which also updates the rows.
TEST(DeviceLoop, SparseGradientsHaveTheBitsOfTheCpu) {
  simulated_devices devices;
  const auto run = [](const std::string& name, std::uint32_t replicas,
                      const update_rule& rule) {
    const auto on = turns_on(name, replicas);
    const auto scope = on.scope();
    models::model_description net{
      "table", {6}, models::stack(models::dense{5})};
    model it{net, rule};
    for (int step = 0; step < 4; ++step)
      on.run([&](replica_context& replica) {
        const auto ids = tensor::of<std::int32_t>(
                           {3}, {step, std::int32_t(replica.replica_id()), 5})
                           .to(replica.device());
        tape t;
        const auto rows = embedding_lookup(it.variables()[0].value(), ids);
        auto gradients = t.sparse_gradients(
          rows * rows, std::vector<variable>{it.variables()[0]});
        EXPECT_TRUE(gradients[0].is_sparse());
        gradients = replica.all_reduce(sum, gradients);
        it.optimizer().apply(gradients,
                             std::vector<variable>{it.variables()[0]});
      });
    return it.weights_sha256();
  };
  for (const auto& rule : rules)
    for (const std::uint32_t replicas : {1, 2})
      EXPECT_EQ(run("cuda:0", replicas, rule), run("cpu:0", replicas, rule));
}

// -- what is refused ----------------------------------------------------------

TEST(DeviceStrategy, RefusesDevicesThatCannotBeUsed) {
  {
    const simulated_devices none{0};
    EXPECT_EQ(
      text_of([] { one_device_strategy{"gpu:0"}; }),
      "device 'gpu:0' cannot be used: this machine has no CUDA device; use one "
      "that has, or name cpu:0, cpu:1, ...");
  }
  simulated_devices devices;
  runtime actors;
  const auto mirrored = [&](const std::vector<std::string>& names) {
    return text_of([&] { mirrored_strategy{actors, names}; });
  };
  EXPECT_EQ(mirrored({"cpu:0", "cuda:1"}),
            "devices: cpu:0 and cuda:1 cannot be used together; name devices "
            "of one kind");
  EXPECT_EQ(mirrored({"cuda:0", "gpu:0"}),
            "devices: gpu:0 is named twice; each device takes one replica");
}

TEST(DeviceStrategy, UsesTheDeviceThatIsNamed) {
  simulated_devices devices;
  const auto strategy = turns_on("gpu:1");
  const auto scope = strategy.scope();
  const model it{small_net(), sgd{}};
  EXPECT_EQ(it.variables()[0].device(), (device{device_kind::cuda, 1}));
}

} // namespace

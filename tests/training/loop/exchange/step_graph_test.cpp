#include "troupe/tensors/context.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/tests/training/graph_log.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <gtest/gtest.h>

#include <limits>

// Captured work is done by launches only, and a launch throws if it uses memory
// that was released since the capture. So equal weights show that each launch
// gets its inputs, and that its results are those of its step.

namespace {

using namespace troupe;
using namespace troupe::test;

/// What a program sees of a fit, and how many graphs there were.
struct graph_outcome {
  std::string weights;
  std::vector<double> losses; ///< By step.
  int captures = 0, launches = 0;
};

void expect_equal(const graph_outcome& got, const graph_outcome& want) {
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.losses, want.losses);
}

/// 60 digits in batches of 16, of which the last is short.
data::dataset batches() {
  return digits_200().take(60).batch(16);
}

struct graph_job {
  models::model_description net = small_net();
  update_rule rule = adam{};
  std::uint32_t replicas = 1;
  data::dataset data = batches();
  std::string device = "gpu:0";
  fit_options options{.epochs = 3};
  std::size_t limit = std::size_t{1} << 30; ///< Bytes of the device.
};

graph_outcome fitted(const graph_job& x, graph_capture graph) {
  simulated_devices devices;
  devices.limit = x.limit;
  const one_device_strategy where{x.device, {.replicas = x.replicas}};
  const auto scope = where.scope();
  model it{x.net, x.rule};
  graph_outcome out;
  auto options = x.options;
  options.graph = graph;
  options.callbacks = {{.on_step = [&](const step_record& step) {
    out.losses.push_back(step.loss);
  }}};
  const auto live = devices.used(gpu).live;
  it.fit(x.data, options);
  EXPECT_EQ(devices.used(gpu).live, live);
  out.weights = it.weights_sha256();
  out.captures = devices.captures;
  out.launches = devices.launches;
  return out;
}

/// Fits with and without graphs, and expects the same bits.
/// @returns the fit with graphs.
graph_outcome fitted_with_graphs(const graph_job& x) {
  const auto got = fitted(x, graph_capture::on);
  const auto want = fitted(x, graph_capture::off);
  EXPECT_EQ(want.captures, 0);
  EXPECT_EQ(want.launches, 0);
  expect_equal(got, want);
  return got;
}

/// Each of three epochs has three whole batches. Two of the nine are computed
/// without a graph, and so is each short batch.
void expect_a_graph_for_each_replica(const graph_job& x) {
  SCOPED_TRACE(x.net.name + ", " + std::string{x.rule.name()} + ", "
               + std::to_string(x.replicas) + " replicas");
  const auto got = fitted_with_graphs(x);
  EXPECT_EQ(got.captures, int(x.replicas));
  EXPECT_EQ(got.launches, 7 * int(x.replicas));
}

models::model_description lenet_like() {
  return models::parse(
    R"({"version": 1, "name": "lenet-like", "input": [28, 28, 1], "layers": [
        {"type": "conv2d", "filters": 4, "kernel": 5, "activation": "relu"},
        {"type": "max_pool2d"},
        {"type": "conv2d", "filters": 6, "kernel": 3, "activation": "relu"},
        {"type": "flatten"}, {"type": "dense", "units": 10}]})",
    "the test");
}

TEST(StepGraph, ChangesNoBit) {
  for (const std::uint32_t replicas : {1, 2, 3}) {
    expect_a_graph_for_each_replica({.replicas = replicas});
    expect_a_graph_for_each_replica({.net = lenet_like(),
                                     .rule = sgd{.momentum = 0.9f},
                                     .replicas = replicas});
  }
}

TEST(StepGraph, IsCapturedOnlyIfTheOptionSaysSo) {
  graph_job x;
  EXPECT_EQ(fit_options{}.graph, graph_capture::off);
  x.device = "cpu:0";
  EXPECT_EQ(fitted_with_graphs(x).captures, 0) << "the CPU has no graphs";
}

/// The masks of a step are those of the CPU, which differ from step to step.
TEST(StepGraph, DropoutDrawsTheNumbersOfTheStep) {
  graph_job x{.net = small_net(/*with_dropout*/ true)};
  for (const std::uint32_t replicas : {1, 2}) {
    x.replicas = replicas;
    expect_a_graph_for_each_replica(x);
  }
}

TEST(StepGraph, ReadsTheWeightsOfClassesOfTheStep) {
  graph_job x;
  x.options.class_weights = {1, 2, 3, 0, 1, 2, 3, 1, 0.5f, 2};
  expect_a_graph_for_each_replica(x);
  x.replicas = 2;
  x.options.replica_shares = {3, 1};
  expect_a_graph_for_each_replica(x);
}

TEST(StepGraph, ReadsTheWeightsOfExamplesOfTheStep) {
  graph_job x;
  x.data = batches().map([](batch rows) {
    auto weights = tensor{{rows.rows()}, dtype::float64};
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights.mutable_data<double>()[i] =
        rows.inputs.data<float>()[784 * i + 300] + 0.5;
    rows.others.push_back({"weights", weights});
    rows.others.push_back({"ignored", weights});
    return rows;
  });
  expect_a_graph_for_each_replica(x);
}

TEST(StepGraph, LeavesLearningRateAndFrozenVariablesToTheStep) {
  graph_job x;
  x.options.schedule = function_schedule{
    [](std::uint64_t step) { return 0.01f / float(step + 1); }};
  x.options.trainable = [](const variable& v) { return v.dims().rank() == 2; };
  expect_a_graph_for_each_replica(x);
}

TEST(StepGraph, WorksWithBatchesThatAreNotReadAhead) {
  graph_job x;
  x.options.prefetch = 0;
  expect_a_graph_for_each_replica(x);
}

TEST(StepGraph, OfBfloat16HasItsBits) {
  const auto weights = [](graph_capture graph) {
    simulated_devices devices;
    const one_device_strategy where{"gpu:0"};
    const auto scope = where.scope();
    model it{small_net(), adam{}, {.precision = models::precision::bf16}};
    it.fit(batches(), {.epochs = 3, .graph = graph});
    EXPECT_EQ(devices.launches, graph == graph_capture::on ? 7 : 0);
    return it.weights_sha256();
  };
  EXPECT_EQ(weights(graph_capture::on), weights(graph_capture::off));
}

/// Digits in batches of the given sizes.
data::dataset batches_of(const std::vector<std::int64_t>& sizes) {
  return data::dataset{sizes.size(), 10, [sizes](std::uint64_t i) {
                         auto rows = digits_200().examples(0, sizes[i]);
                         auto inputs = rows.inputs.clone();
                         inputs.mutable_data<float>()[0] = float(i);
                         rows.inputs = inputs;
                         rows.global_rows = sizes[i];
                         return rows;
                       }};
}

TEST(StepGraph, IsThatOfTheLargestBatch) {
  graph_job x;
  x.data = batches_of({8, 8, 8, 8, 16, 16, 8, 16, 16});
  x.options.epochs = 1;
  const auto got = fitted_with_graphs(x);
  EXPECT_EQ(got.captures, 2);
  EXPECT_EQ(got.launches, 2 + 2);
}

TEST(StepGraph, IsCapturedAnewInEachFit) {
  const auto weights = [](graph_capture graph) {
    simulated_devices devices;
    const one_device_strategy where{"gpu:0"};
    const auto scope = where.scope();
    model it{small_net(), adam{}};
    for (int i = 1; i <= 2; ++i) {
      it.fit(batches(), {.epochs = 2, .graph = graph});
      EXPECT_EQ(devices.captures, graph == graph_capture::on ? i : 0);
    }
    return it.weights_sha256();
  };
  EXPECT_EQ(weights(graph_capture::on), weights(graph_capture::off));
}

/// Waiting for the device is what a step costs on the host.
TEST(StepGraph, AStepWaitsOnceForTheDevice) {
  simulated_devices devices;
  const one_device_strategy where{"gpu:0", {.replicas = 2}};
  const auto scope = where.scope();
  model it{small_net(), adam{}};
  it.fit(batches(), {.epochs = 3, .graph = graph_capture::on});
  EXPECT_EQ(devices.launches, 2 * 7);
  EXPECT_EQ(devices.waits, 3 * 4);
  EXPECT_EQ(devices.updates, 3 * 4);
}

// -- steps that make no update ------------------------------------------------

/// Five batches of 20 digits. `change` is called with batch `bad`.
data::dataset with_bad_batch(std::size_t bad,
                             const std::function<void(batch&)>& change) {
  return data::dataset{5, 10, [=](std::uint64_t i) {
                         const auto first = std::int64_t(20 * i);
                         auto rows = digits_200().examples(first, first + 20);
                         rows.global_rows = 20;
                         if (i == bad)
                           change(rows);
                         return rows;
                       }};
}

TEST(StepGraph, AStepThatIsNotFiniteIsSkipped) {
  graph_job x;
  x.options.epochs = 1;
  x.options.on_nan = on_nan::skip;
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    x.data = with_bad_batch(3, [&](batch& rows) {
      rows.inputs = rows.inputs.clone();
      rows.inputs.mutable_data<float>()[784] = value;
    });
    auto got = fitted(x, graph_capture::on),
         want = fitted(x, graph_capture::off);
    EXPECT_EQ(got.launches, 3);
    EXPECT_EQ(got.weights, want.weights);
    for (auto* each : {&got, &want})
      each->losses.erase(each->losses.begin() + 3);
    EXPECT_EQ(got.losses, want.losses);
  }
}

/// The kernel finds the label in each launch, and its first wait reports it.
TEST(StepGraph, AnInvalidLabelMakesNoUpdate) {
  const auto bad = with_bad_batch(4, [](batch& rows) {
    rows.labels = rows.labels.clone();
    rows.labels.mutable_data<std::int32_t>()[3] = 12;
  });
  simulated_devices devices;
  const one_device_strategy where{"gpu:0"};
  const auto scope = where.scope();
  model it{small_net(), adam{}}, other{small_net(), adam{}};
  EXPECT_EQ(text_of([&] {
              it.fit(bad, {.on_nan = on_nan::skip, .graph = graph_capture::on});
            }),
            "label 12 in row 3; there are 10 classes, from 0");
  EXPECT_EQ(devices.launches, 3);
  other.fit(bad, {.max_steps = 4});
  EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
}

// -- passes that cannot be captured -------------------------------------------

/// Expects that two captures fail and no other one is tried.
/// @param reason in the log.
void expect_no_graph(const graph_job& x, const std::string& reason) {
  const graph_log log;
  const auto got = fitted_with_graphs(x);
  EXPECT_EQ(got.captures, 2);
  EXPECT_EQ(got.launches, 0);
  EXPECT_EQ(log.lines,
            (std::vector<std::string>{
              "the steps of this fit have no graph of cuda:0: " + reason}));
}

/// Scales by an element that it reads on the host.
class host_layer : public models::layer {
public:
  std::string_view type() const override { return "host_of_the_graph_test"; }
  shape build(const shape& in, models::builder&) const override { return in; }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    return x * double(x.detach().to({}).data<float>()[300] + 1);
  }
};

/// Draws a random number of its own.
class random_layer : public models::layer {
public:
  std::string_view type() const override { return "random_of_the_graph_test"; }
  shape build(const shape& in, models::builder&) const override { return in; }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    auto key = current_context().random;
    ++current_context().random.op;
    return x * double(random_stream{key}.uniform());
  }
};

template <class Layer>
models::model_description net_with() {
  models::register_layer<Layer>();
  return {"own",
          {28, 28, 1},
          models::stack(Layer{}, models::flatten{}, models::dense{10})};
}

TEST(StepGraph, ALayerThatReadsElementsOnTheHostHasNone) {
  graph_job x{.net = net_with<host_layer>()};
  for (const std::uint32_t replicas : {1, 2}) {
    x.replicas = replicas;
    expect_no_graph(x, "a copy between the CPU and a device cannot be in a "
                       "graph of cuda:0: it needs the host in each step");
  }
}

TEST(StepGraph, ARandomOpThatIsNotKnownToFollowTheStepHasNone) {
  expect_no_graph({.net = net_with<random_layer>()},
                  "a random op would draw the same numbers in each step");
}

/// Fails once, in the first capture.
class once_failing_layer : public models::layer {
public:
  std::string_view type() const override { return "fails_once_in_graph_test"; }
  shape build(const shape& in, models::builder&) const override { return in; }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    if (++calls() == 3)
      throw device_error{"a kernel was loaded"};
    return x;
  }
  static std::atomic<int>& calls() {
    static std::atomic<int> count = 0;
    return count;
  }
};

TEST(StepGraph, AFailedCaptureIsTriedOnceMore) {
  const graph_job x{.net = net_with<once_failing_layer>()};
  const graph_log log;
  once_failing_layer::calls() = 0;
  const auto got = fitted(x, graph_capture::on),
             want = fitted(x, graph_capture::off);
  expect_equal(got, want);
  EXPECT_EQ(got.captures, 2);
  EXPECT_EQ(got.launches, 6);
  EXPECT_EQ(log.lines, std::vector<std::string>{});
}

/// Notes where its inputs are.
class noting_layer : public models::layer {
public:
  std::string_view type() const override { return "notes_of_the_graph_test"; }
  shape build(const shape& in, models::builder&) const override { return in; }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    addresses().push_back(x.address());
    return x;
  }
  static std::vector<const std::byte*>& addresses() {
    static std::vector<const std::byte*> list;
    return list;
  }
};

/// Kernels are chosen by the addresses of their operands.
TEST(StepGraph, TheWarmUpHasTheOperandsOfTheCapture) {
  noting_layer::addresses().clear();
  const auto got = fitted(
    {.net = net_with<noting_layer>(), .data = batches_of({16, 16, 16, 16})},
    graph_capture::on);
  EXPECT_EQ(got.captures, 1);
  const auto& list = noting_layer::addresses();
  ASSERT_EQ(list.size(), 3u) << "two passes and the capture";
  for (const auto* one : list)
    EXPECT_EQ(one, list[0]);
}

TEST(StepGraph, TooLittleMemoryForAGraphIsNoError) {
  graph_job x;
  x.options.prefetch = 0;
  std::size_t peak = 0;
  {
    simulated_devices devices;
    const one_device_strategy where{"gpu:0"};
    const auto scope = where.scope();
    model it{x.net, x.rule};
    it.fit(x.data, x.options);
    peak = devices.used(gpu).peak;
  }
  x.limit = peak + 1000;
  const graph_log log;
  const auto got = fitted_with_graphs(x);
  EXPECT_EQ(got.launches, 0);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("asked for"), std::string::npos) << log.lines[0];
}

/// The exception is that of the pass without a graph.
TEST(StepGraph, AnExceptionOfALayerIsThrown) {
  class throwing_layer : public models::layer {
  public:
    std::string_view type() const override { return "throws_in_graph_test"; }
    shape build(const shape& in, models::builder&) const override { return in; }
    tensor forward(const tensor& x, const models::layer_scope&) const override {
      static std::atomic<int> calls = 0;
      if (++calls > 2)
        throw std::out_of_range("the user's error");
      return x;
    }
  };
  simulated_devices devices;
  const one_device_strategy where{"gpu:0"};
  const auto scope = where.scope();
  model it{net_with<throwing_layer>(), adam{}};
  EXPECT_EQ(text_of([&] { it.fit(batches(), {.graph = graph_capture::on}); }),
            "the user's error");
}

} // namespace

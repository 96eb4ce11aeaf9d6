#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/training/parameter_server/seen_numbers.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe {
namespace {

data::dataset digits(std::uint64_t examples) {
  return data::digits({.examples = examples, .seed = 3});
}

/// A network with dropout, whose masks depend on the step.
models::model_description with_dropout() {
  using namespace models;
  return {.name = "small",
          .input = {28, 28, 1},
          .layers = stack(flatten{}, dense{16, activation::relu}, dropout{0.25},
                          dense{10})};
}

TEST(ServerModel, OneWorkerTrainsToTheBitsOfOneDevice) {
  const auto batches = digits(200).shuffle().batch(48); // the last one has 8
  const schedule rate =
    step_schedule{.learning_rate = 0.01F, .factor = 0.5F, .every = 3};
  model alone{with_dropout(), adam{}, {.seed = 5}};
  const auto expected = alone.fit(batches, {.epochs = 2, .schedule = rate});
  for (const std::uint32_t servers : {1u, 3u}) {
    runtime actors;
    const parameter_server_strategy on{
      actors,
      {.servers = servers,
       .workers = 1,
       .partitioner = parameter_server::fixed_shards_partitioner(servers)}};
    cluster_coordinator coordinator{on};
    server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
    const auto found =
      trained.fit(coordinator, batches, {.epochs = 2, .schedule = rate});
    EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
    ASSERT_EQ(found.epochs.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found.epochs[i].loss, expected.epochs[i].loss);
      EXPECT_EQ(found.epochs[i].accuracy, expected.epochs[i].accuracy);
      EXPECT_EQ(found.epochs[i].examples, 200u);
      EXPECT_EQ(found.epochs[i].steps, expected.epochs[i].steps);
      EXPECT_EQ(found.epochs[i].learning_rate,
                expected.epochs[i].learning_rate);
    }
  }
}

TEST(ServerModel, SeveralWorkersTrainOnEachExampleOnce) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 3}};
  cluster_coordinator coordinator{on, {.in_flight = 4, .interleaved = 2}};
  server_model trained{on, "mlp", with_dropout(), sgd{.learning_rate = 0.05F}};
  const auto [train, test] = digits(600).split(0.8);
  std::uint64_t epochs = 0;
  const auto found = trained.fit(
    coordinator, train.shuffle().batch(16),
    {.epochs = 12,
     .validation = test.batch(50),
     .on_epoch_end = [&](const epoch_record& x) {
       EXPECT_EQ(x.epoch, ++epochs);
       EXPECT_EQ(x.examples, 480u);
       EXPECT_TRUE(coordinator.remove_worker(coordinator.workers().front()));
       coordinator.add_worker();
     }});
  EXPECT_EQ(epochs, 12u);
  EXPECT_EQ(trained.steps(), 360u);
  EXPECT_EQ(on.status()[0].updates, 360u); // each step counts once
  EXPECT_LT(found.epochs[11].loss, found.epochs[0].loss);
  EXPECT_GT(found.epochs[11].validation_accuracy, 0.3);
}

TEST(ServerModel, EvaluatesAsTheModelThatGetsItsWeights) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{.learning_rate = 0.1F}};
  trained.fit(coordinator, digits(96).batch(32));
  model copy{with_dropout(), sgd{}};
  EXPECT_NE(copy.weights_sha256(), trained.weights_sha256());
  trained.copy_to(copy);
  EXPECT_EQ(copy.weights_sha256(), trained.weights_sha256());
  const auto found = trained.evaluate(coordinator, digits(50).batch(20));
  const auto expected = copy.evaluate(digits(50).batch(20));
  EXPECT_EQ(found.examples, 50u);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(found.accuracy, expected.accuracy);
  model other{models::mlp(), sgd{}};
  EXPECT_THROW(trained.copy_to(other), std::invalid_argument);
}

TEST(ServerModel, EndsIfALossIsNotFinite) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 1}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{}};
  const auto before = trained.weights_sha256();
  auto bad = tensor::zeros({4, 28, 28, 1});
  bad.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto batches =
    data::dataset{bad, tensor::of<std::int32_t>({4}, {0, 1, 2, 3}), 10}.batch(
      4);
  EXPECT_THROW(trained.fit(coordinator, batches), std::runtime_error);
  EXPECT_EQ(trained.weights_sha256(), before);
  const auto skipped =
    trained.fit(coordinator, batches, {.on_nan = on_nan::skip});
  EXPECT_EQ(skipped.epochs.size(), 1u);
  EXPECT_EQ(trained.weights_sha256(), before);
}

TEST(ServerModel, EndsWhenItIsToldToStop) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 1}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{}};
  const std::atomic<bool> stop = true;
  const auto found =
    trained.fit(coordinator, digits(64).batch(16), {.stop = &stop});
  EXPECT_EQ(found.end, fit_end::interrupted);
  EXPECT_TRUE(found.epochs.empty());
  EXPECT_EQ(trained.steps(), 0u);
}

TEST(ServerModel, RejectsDataThatDoesNotFit) {
  runtime actors;
  const parameter_server_strategy on{actors};
  cluster_coordinator coordinator{on};
  server_model trained{on, "mlp", with_dropout(), sgd{}};
  EXPECT_THROW(trained.fit(coordinator, digits(8).batch(4).repeat()),
               std::invalid_argument);
  const data::dataset other{tensor::zeros({4, 7}),
                            tensor::of<std::int32_t>({4}, {0, 1, 2, 3}), 10};
  EXPECT_THROW(trained.fit(coordinator, other.batch(2)), std::invalid_argument);
  EXPECT_THROW((server_model{on, "mlp", with_dropout(), sgd{}}),
               std::invalid_argument);
}

using parameter_server::consistency_kind;
using test::seen_numbers;

TEST(ServerModel, SynchronousStepsHaveTheBitsOfTheMirroredStrategy) {
  const auto [train, test] = digits(230).split(0.7);
  const auto batches = train.shuffle().batch(48); // the last one has 17
  const schedule rate =
    step_schedule{.learning_rate = 0.01F, .factor = 0.5F, .every = 3};
  for (const std::uint32_t replicas : {1u, 2u, 4u}) {
    const one_device_strategy local{"cpu:0", {.replicas = replicas}};
    const auto scope = local.scope();
    model alone{with_dropout(), adam{}, {.seed = 5}};
    const auto expected = alone.fit(
      batches, {.epochs = 2, .validation = test.batch(20), .schedule = rate});
    for (const std::uint32_t servers : {1u, 3u})
      for (const std::uint32_t workers : {1u, 3u}) {
        runtime actors;
        const parameter_server_strategy on{
          actors,
          {.servers = servers,
           .workers = workers,
           .partitioner = parameter_server::fixed_shards_partitioner(servers)}};
        cluster_coordinator coordinator{on, {.in_flight = 2}};
        server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
        const auto found =
          trained.fit(coordinator, batches,
                      {.epochs = 2,
                       .validation = test.batch(20),
                       .schedule = rate,
                       .consistency = {.kind = consistency_kind::synchronous},
                       .replicas = replicas});
        EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256())
          << replicas << " replicas, " << servers << " servers, " << workers
          << " workers";
        ASSERT_EQ(found.epochs.size(), 2u);
        for (std::size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(found.epochs[i].loss, expected.epochs[i].loss);
          EXPECT_EQ(found.epochs[i].accuracy, expected.epochs[i].accuracy);
          EXPECT_EQ(found.epochs[i].examples, 161u);
          EXPECT_EQ(found.epochs[i].validation_accuracy,
                    expected.epochs[i].validation_accuracy);
        }
      }
  }
}

/// Batch i holds the number i.
data::dataset numbered(std::uint64_t batches,
                       std::function<void(std::uint64_t)> on_read) {
  return {batches, 10, [on_read = std::move(on_read)](std::uint64_t i) {
            on_read(i);
            batch out{.inputs = tensor::full({2, 28, 28, 1}, 0.001 * double(i)),
                      .labels = tensor::of<std::int32_t>({2}, {0, 1})};
            out.global_rows = 2;
            return out;
          }};
}

TEST(ServerModel, BoundedStepsDoNotBeginBeforeTheOldOnesAreThere) {
  for (const std::uint32_t staleness : {0u, 2u}) {
    constexpr std::uint64_t batches = 24, blocked = 4;
    constexpr std::uint32_t replicas = 2;
    // Batch c R + r waits for all batches of the steps below c - staleness, and
    // for the batch of its replica before it.
    const auto last_step = blocked / replicas + staleness;
    const auto last = last_step * replicas + 1; // of the other replica
    const auto may_begin = [&](std::uint64_t i) {
      return i <= blocked
             || (i % replicas != blocked % replicas
                 && i / replicas <= last_step);
    };
    seen_numbers begun, opened;
    const auto data = numbered(batches, [&](std::uint64_t i) {
      begun.add(i);
      if (i == blocked)
        opened.wait_for(0);
    });
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 4}};
    cluster_coordinator coordinator{on};
    server_model trained{on, "small", with_dropout(), sgd{}};
    std::thread opener{[&] {
      begun.wait_for(last);
      // So that a batch that the fit schedules too early has begun too.
      for (int i = 0; i < 500; ++i)
        coordinator.schedule([] { return 0; }).get();
      for (const auto i : begun.wait_for(last))
        EXPECT_TRUE(may_begin(i)) << "batch " << i << " has begun";
      opened.add(0);
    }};
    const auto found =
      trained.fit(coordinator, data,
                  {.consistency = {.kind = consistency_kind::bounded,
                                   .max_staleness = staleness},
                   .replicas = replicas});
    opener.join();
    EXPECT_EQ(begun.wait_for(0).size(), batches);
    EXPECT_EQ(found.epochs.at(0).examples, 2 * batches);
    const auto status = on.status()[0];
    EXPECT_EQ(status.updates, batches);
    EXPECT_EQ(status.staleness.gradients, batches);
    EXPECT_LE(status.staleness.largest, (replicas - 1) * (2 * staleness + 1));
  }
}

TEST(ServerModel, BackupWorkersDropTheContributionsThatComeTooLate) {
  constexpr std::uint64_t batches = 5;
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 3}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  const auto data = digits(30 * batches).batch(30);
  // The closure of each part computes this metric. The sixth part waits until
  // two of three parts of all steps have been made without it.
  std::atomic<std::uint64_t> parts = 0;
  seen_numbers made;
  const models::metric blocking{
    .name = "blocking",
    .add = [&](const tensor&, const tensor&, std::span<double>) {
      const auto number = ++parts;
      made.add(number);
      if (number == 6)
        made.wait_for(2 * batches + 1);
    }};
  std::vector<dropped_contribution> dropped;
  const auto found =
    trained.fit(coordinator, data,
                {.metrics = std::vector{blocking},
                 .consistency = {.kind = consistency_kind::synchronous,
                                 .backup_workers = 1},
                 .replicas = 3,
                 .on_dropped = [&](const dropped_contribution& x) {
                   dropped.push_back(x);
                 }});
  EXPECT_EQ(trained.steps(), batches);
  // One of three parts of ten examples is dropped in each step.
  EXPECT_EQ(dropped.size(), batches);
  std::set<std::uint64_t> steps;
  std::uint64_t examples = found.epochs.at(0).examples;
  for (const auto& x : dropped) {
    EXPECT_TRUE(steps.insert(x.step).second);
    EXPECT_LT(x.replica, 3u);
    EXPECT_EQ(x.examples, 10u);
    examples += x.examples;
  }
  EXPECT_EQ(examples, 30 * batches);
  // The late replica has left out the steps that were made without it.
  EXPECT_LT(parts, 3 * batches);
}

TEST(ServerModel, GoesOnWithAnotherKindOfConsistency) {
  // One replica: all kinds make the same steps.
  const auto batches = digits(96).shuffle().batch(32);
  model alone{with_dropout(), adam{}, {.seed = 5}};
  alone.fit(batches, {.epochs = 4});
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
  for (const auto kind :
       {consistency_kind::asynchronous, consistency_kind::synchronous,
        consistency_kind::bounded, consistency_kind::synchronous})
    trained.fit(coordinator, batches, {.consistency = {.kind = kind}});
  EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
}

TEST(ServerModel, SkipsASynchronousStepThatIsNotFinite) {
  auto inputs = tensor::zeros({12, 28, 28, 1});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs.mutable_data<float>()[i] = static_cast<float>(i % 7) * 0.1F;
  // In the second of three batches, of replica 1.
  inputs.mutable_data<float>()[6 * 28 * 28] =
    std::numeric_limits<float>::quiet_NaN();
  const auto batches =
    data::dataset{
      inputs,
      tensor::of<std::int32_t>({12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}), 10}
      .batch(4);
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  model alone{with_dropout(), adam{}, {.seed = 5}};
  alone.fit(batches, {.on_nan = on_nan::skip});
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
  server_fit_options options{
    .on_nan = on_nan::skip,
    .consistency = {.kind = consistency_kind::synchronous}};
  trained.fit(coordinator, batches, options);
  EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
  options.on_nan = on_nan::stop;
  EXPECT_THROW(trained.fit(coordinator, batches, options), std::runtime_error);
  EXPECT_EQ(trained.steps(), 4u); // it has stopped in the second one
  options.on_nan = on_nan::skip;
  trained.fit(coordinator, batches, options);
  EXPECT_EQ(trained.steps(), 7u);
}

TEST(ServerModel, LeavesStepsThatAreNotFiniteOutOfTheMetrics) {
  // The gradient of the second batch is infinite, its loss is not: the loss of
  // a correct class with a huge score is 0, the product of its inputs is not.
  auto inputs = tensor::zeros({6, 2});
  auto labels = tensor::of<float>({6, 1}, {1, 2, 0, 0, 3, 4});
  const auto x = inputs.mutable_data<float>();
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 0.5F;
  x[4] = 3e38F; // error is about 1e19 with the weights below: a finite loss
  const models::model_description line{
    .name = "line", .input = {2}, .layers = models::stack(models::dense{1})};
  const data::dataset all{inputs, labels};
  const auto batches = all.batch(2);
  model alone{line, sgd{}, {.seed = 1, .loss = "mean_absolute_error"}};
  const auto expected = alone.fit(batches, {.on_nan = on_nan::skip});
  for (const auto kind :
       {consistency_kind::asynchronous, consistency_kind::synchronous}) {
    runtime actors;
    const parameter_server_strategy on{actors};
    cluster_coordinator coordinator{on};
    server_model trained{
      on, "line", line, sgd{}, {.seed = 1, .loss = "mean_absolute_error"}};
    const auto found =
      trained.fit(coordinator, batches,
                  {.on_nan = on_nan::skip, .consistency = {.kind = kind}});
    EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
    EXPECT_EQ(found.epochs.at(0).examples, expected.epochs.at(0).examples);
    EXPECT_EQ(found.epochs.at(0).loss, expected.epochs.at(0).loss);
  }
}

TEST(ServerModel, RejectsConsistencyThatIsContradictory) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  const auto batches = digits(8).batch(4);
  for (const parameter_server::consistency& wrong :
       {parameter_server::consistency{.max_staleness = 1},
        parameter_server::consistency{.backup_workers = 1},
        parameter_server::consistency{.kind = consistency_kind::synchronous,
        .backup_workers = 2}})
    EXPECT_THROW(trained.fit(coordinator, batches, {.consistency = wrong}),
                 std::invalid_argument);
}

/// Case A28: a checkpoint of four servers on two, and on none.
TEST(ServerModel, A28ACheckpointOfFourServersIsRestoredOnTwo) {
  const auto batches = digits(150).shuffle().batch(48);
  const auto file = std::filesystem::temp_directory_path()
                    / ("troupe-a28-" + std::to_string(::getpid()) + ".troupe");
  for (const auto& rule :
       {update_rule{adam{}}, update_rule{sgd{.momentum = 0.9F}},
        update_rule{sgd{}}}) {
    const one_device_strategy local{"cpu:0", {.replicas = 2}};
    const auto scope = local.scope();
    model alone{with_dropout(), rule, {.seed = 5}};
    const auto one_epoch = [&] {
      alone.fit(batches);
      return alone.weights_sha256();
    };
    const auto first = one_epoch(), second = one_epoch();
    const server_fit_options synchronous{
      .consistency = {.kind = consistency_kind::synchronous}, .replicas = 2};
    const auto on_servers = [&](std::uint32_t servers, auto fn) {
      runtime actors;
      const parameter_server_strategy on{
        actors,
        {.servers = servers,
         .workers = 2,
         .partitioner = parameter_server::fixed_shards_partitioner(servers)}};
      server_model trained{on, "small", with_dropout(), rule, {.seed = 5}};
      cluster_coordinator coordinator{on};
      fn(trained, [&] { trained.fit(coordinator, batches, synchronous); });
    };
    on_servers(4, [&](server_model& trained, auto fit) {
      fit();
      // The seed of its dropout is its own.
      model copy{with_dropout(), rule, {.seed = 5}};
      trained.copy_to(copy);
      copy.save(file);
    });
    on_servers(2, [&](server_model& trained, auto fit) {
      fit(); // its state is replaced
      fit();
      fit();
      trained.copy_from(model::load(file));
      EXPECT_EQ(trained.weights_sha256(), first);
      fit();
      EXPECT_EQ(trained.weights_sha256(), second);
    });
    auto loaded = model::load(file);
    EXPECT_EQ(loaded.weights_sha256(), first);
    loaded.fit(batches);
    EXPECT_EQ(loaded.weights_sha256(), second);
  }
  std::filesystem::remove(file);
}

/// Trains on servers, each time on others, and gives the state to the next ones
/// in a file.
class ResumedServerModel : public ::testing::Test {
protected:
  ~ResumedServerModel() override { std::filesystem::remove(file); }

  /// Makes one call of `fit`, and saves the state.
  history fit(std::uint32_t servers, std::uint32_t workers,
              server_fit_options options) {
    runtime actors;
    const parameter_server_strategy on{
      actors,
      {.servers = servers,
       .workers = workers,
       .partitioner = parameter_server::fixed_shards_partitioner(servers)}};
    server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
    if (options.resume)
      trained.copy_from(model::load(file));
    cluster_coordinator coordinator{on};
    const auto out = trained.fit(coordinator, batches, options);
    save(trained);
    return out;
  }

  void save(const server_model& from) const {
    model copy{with_dropout(), adam{}, {.seed = 5}};
    from.copy_to(copy);
    copy.save(file);
  }

  std::string bytes_of_file() const {
    std::ifstream in{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  std::string saved_weights() const {
    return model::load(file).weights_sha256();
  }

  static void expect_equal(const history& found, const history& expected) {
    ASSERT_EQ(found.epochs.size(), expected.epochs.size());
    for (std::size_t i = 0; i < found.epochs.size(); ++i) {
      EXPECT_EQ(found.epochs[i].epoch, expected.epochs[i].epoch);
      EXPECT_EQ(found.epochs[i].steps, expected.epochs[i].steps);
      EXPECT_EQ(found.epochs[i].examples, expected.epochs[i].examples);
      EXPECT_EQ(found.epochs[i].loss, expected.epochs[i].loss);
      EXPECT_EQ(found.epochs[i].accuracy, expected.epochs[i].accuracy);
    }
  }

  const std::filesystem::path file =
    std::filesystem::temp_directory_path()
    / ("troupe-resumed-" + std::to_string(::getpid()) + ".troupe");
  // Four batches, and another order in each epoch.
  const data::dataset batches = digits(150).shuffle().batch(48);
};

TEST_F(ResumedServerModel, HasTheBitsOfAFitThatWasNotInterrupted) {
  for (const std::uint32_t replicas : {1u, 2u}) {
    const one_device_strategy local{"cpu:0", {.replicas = replicas}};
    const auto scope = local.scope();
    model alone{with_dropout(), adam{}, {.seed = 5}};
    const auto expected = alone.fit(batches, {.epochs = 3});
    std::vector<parameter_server::consistency> kinds{
      {.kind = consistency_kind::synchronous}};
    if (replicas == 1)
      kinds.push_back({.kind = consistency_kind::bounded, .max_staleness = 2});
    for (const auto& kind : kinds)
      for (const std::uint64_t steps : {1u, 4u, 5u}) {
        SCOPED_TRACE(std::to_string(replicas) + " replicas, "
                     + std::to_string(steps) + " steps");
        server_fit_options options{.epochs = 3,
                                   .max_steps = steps,
                                   .consistency = kind,
                                   .replicas = replicas};
        EXPECT_EQ(fit(3, 1, options).end, fit_end::max_steps);
        EXPECT_EQ(model::load(file).steps(), steps);
        options.resume = true;
        EXPECT_EQ(fit(1, 2, options).end, fit_end::max_steps);
        // The same file goes on without servers, too.
        auto loaded = model::load(file);
        EXPECT_EQ(loaded.epochs_done(), 2 * steps / 4);
        expect_equal(loaded.fit(batches, {.epochs = 3, .resume = true}),
                     expected);
        EXPECT_EQ(loaded.weights_sha256(), alone.weights_sha256());
        options.max_steps = 0;
        const auto found = fit(2, 2, options);
        EXPECT_EQ(found.end, fit_end::done);
        expect_equal(found, expected);
        EXPECT_EQ(saved_weights(), alone.weights_sha256());
      }
  }
}

TEST_F(ResumedServerModel, WritesTheFileOfAFitWithoutServers) {
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  model alone{with_dropout(), adam{}, {.seed = 5}};
  alone.fit(batches, {.epochs = 2});
  alone.save(file);
  const auto expected = bytes_of_file();
  server_fit_options options{
    .epochs = 2,
    .max_steps = 3,
    .consistency = {.kind = consistency_kind::synchronous},
    .replicas = 2};
  fit(2, 2, options);
  options.max_steps = 0;
  options.resume = true;
  fit(2, 2, options);
  EXPECT_EQ(bytes_of_file(), expected) << "resumed";
  options.resume = false;
  fit(2, 2, options);
  EXPECT_EQ(bytes_of_file(), expected) << "not interrupted";
}

TEST(ServerModel, ResumesOnTheSameDataOnly) {
  const auto rows = [](float last) {
    return data::dataset{
      3, 10, [last](std::uint64_t i) {
        return batch{.inputs = tensor::full({2, 28, 28, 1}, i == 2 ? last : 0),
                     .labels = tensor::of<std::int32_t>({2}, {0, 1}),
                     .global_rows = 2};
      }};
  };
  runtime actors;
  const parameter_server_strategy on{actors};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  const auto fit = [&](float last, const server_fit_options& options) {
    return test::text_of(
      [&] { trained.fit(coordinator, rows(last), options); });
  };
  EXPECT_EQ(fit(1, {.epochs = 2, .max_steps = 1}), "no error");
  const auto text = fit(2, {.epochs = 2, .resume = true});
  EXPECT_TRUE(text.starts_with("the last batch of this dataset has other "
                               "values (2 examples, "))
    << text;
  EXPECT_EQ(fit(1, {.epochs = 2, .resume = true}), "no error");
  EXPECT_EQ(fit(2, {.epochs = 3, .resume = true}), text) << "a complete fit";
  EXPECT_EQ(fit(1, {.epochs = 3, .resume = true}), "no error");
}

/// An epoch has four steps, so the pauses are in epochs, at their ends, or
/// both. There is none after the last step, which is step 12.
TEST_F(ResumedServerModel, HasTheBitsOfAFitThatDidNotPause) {
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  model alone{with_dropout(), adam{}, {.seed = 5}};
  const auto expected = alone.fit(batches, {.epochs = 3});
  for (const std::uint64_t every : {1u, 2u, 3u, 4u, 5u, 13u}) {
    SCOPED_TRACE(every);
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 2}};
    server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
    cluster_coordinator coordinator{on};
    std::vector<std::uint64_t> pauses;
    server_fit_options options{
      .epochs = 3,
      .pause_steps = every,
      .on_pause =
        [&] {
          EXPECT_TRUE(coordinator.done());
          pauses.push_back(trained.steps());
          if (pauses.size() == 2)
            save(trained);
        },
      .consistency = {.kind = consistency_kind::synchronous},
      .replicas = 2};
    const auto found = trained.fit(coordinator, batches, options);
    EXPECT_EQ(found.end, fit_end::done);
    expect_equal(found, expected);
    EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
    std::vector<std::uint64_t> all;
    for (auto step = every; step < 12; step += every)
      all.push_back(step);
    EXPECT_EQ(pauses, all);
    if (pauses.size() < 2)
      continue;
    options.pause_steps = 0;
    options.resume = true;
    EXPECT_EQ(model::load(file).steps(), 2 * every);
    expect_equal(fit(2, 1, options), expected);
    EXPECT_EQ(saved_weights(), alone.weights_sha256());
  }
}

TEST_F(ResumedServerModel, PausesAtMultiplesOfTheStepsOfTheModel) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
  cluster_coordinator coordinator{on};
  std::vector<std::uint64_t> pauses;
  server_fit_options options{
    .epochs = 3, .max_steps = 5, .pause_steps = 3, .on_pause = [&] {
      pauses.push_back(trained.steps());
    }};
  const std::vector<std::uint64_t> first{3}, all{3, 6};
  EXPECT_EQ(trained.fit(coordinator, batches, options).end, fit_end::max_steps);
  EXPECT_EQ(pauses, first);
  options.resume = true;
  options.max_steps = 4; // it ends where it would pause
  EXPECT_EQ(trained.fit(coordinator, batches, options).end, fit_end::max_steps);
  EXPECT_EQ(trained.steps(), 9u);
  EXPECT_EQ(pauses, all);
}

/// Each batch counts once, and the fit can be told to stop in a pause.
TEST_F(ResumedServerModel, CountsEachExampleOnceWithPausesOfEachConsistency) {
  for (const parameter_server::consistency kind :
       {parameter_server::consistency{},
        {.kind = consistency_kind::bounded, .max_staleness = 1}}) {
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 2}};
    server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
    cluster_coordinator coordinator{on};
    std::atomic<bool> stop = false;
    server_fit_options options{.epochs = 3,
                               .pause_steps = 3,
                               .on_pause = [&] { stop = true; },
                               .stop = &stop,
                               .consistency = kind,
                               .replicas = 2};
    EXPECT_EQ(trained.fit(coordinator, batches, options).end,
              fit_end::interrupted);
    EXPECT_EQ(trained.steps(), 3u);
    stop = false;
    options.resume = true;
    options.on_pause = {};
    const auto found = trained.fit(coordinator, batches, options);
    EXPECT_EQ(found.end, fit_end::done);
    ASSERT_EQ(found.epochs.size(), 3u);
    for (const auto& epoch : found.epochs)
      EXPECT_EQ(epoch.examples, 150u);
    EXPECT_EQ(on.status()[0].updates, 12u);
  }
}

TEST_F(ResumedServerModel, GoesOnFromTheEndOfAnEpochAndFromOtherStrategies) {
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  model alone{with_dropout(), adam{}, {.seed = 5}};
  alone.fit(batches, {.epochs = 2});
  server_fit_options options{
    .epochs = 2,
    .consistency = {.kind = consistency_kind::synchronous},
    .replicas = 2};
  {
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 2}};
    server_model trained{on, "small", with_dropout(), adam{}, {.seed = 5}};
    cluster_coordinator coordinator{on};
    auto saving = options;
    saving.on_epoch_end = [&](const epoch_record& x) {
      if (x.epoch == 1)
        save(trained);
    };
    trained.fit(coordinator, batches, saving);
    EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
    // It is complete, and there is nothing to resume.
    saving.resume = true;
    EXPECT_THROW(trained.fit(coordinator, batches, saving),
                 std::invalid_argument);
  }
  EXPECT_EQ(model::load(file).steps(), 4u);
  options.resume = true;
  fit(2, 1, options);
  EXPECT_EQ(saved_weights(), alone.weights_sha256());

  model cut{with_dropout(), adam{}, {.seed = 5}};
  cut.fit(batches, {.epochs = 2, .max_steps = 3});
  cut.save(file);
  fit(2, 1, options);
  EXPECT_EQ(saved_weights(), alone.weights_sha256());
  // The replicas of a synchronous step are those of the interrupted fit.
  cut.save(file);
  options.replicas = 3;
  EXPECT_THROW(fit(2, 1, options), std::invalid_argument);
  options.consistency = {};
  EXPECT_THROW(fit(2, 1, options), std::invalid_argument);
}

/// Batch 2 of replica 0 ends when batch 7 of replica 1 has begun and the fit
/// was told to stop. Batches 4 and 6 have not begun then. The closure of
/// replica 1 may have got more batches.
TEST(ServerModel, LeavesNoBatchOutWhenItIsToldToStop) {
  constexpr std::uint64_t batches = 24, blocked = 2, last = 7;
  std::atomic<bool> stop = false;
  seen_numbers stopped;
  std::mutex lock; // guards `reads`
  std::multiset<std::uint64_t> reads;
  const auto data = numbered(batches, [&](std::uint64_t i) {
    {
      const std::lock_guard hold{lock};
      reads.insert(i);
    }
    if (i == blocked)
      stopped.wait_for(last);
    if (i == last) {
      stop = true;
      stopped.add(last);
    }
  });
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 4}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  server_fit_options options{
    .stop = &stop,
    .consistency = {.kind = consistency_kind::bounded, .max_staleness = 2},
    .replicas = 2};
  EXPECT_EQ(trained.fit(coordinator, data, options).end, fit_end::interrupted);
  EXPECT_GT(trained.steps(), last);
  // A fit also reads batch 0 to know its shape, and the first and the last
  // batch to identify the data.
  for (std::uint64_t i = 1; i < batches - 1; ++i)
    EXPECT_EQ(reads.count(i), i < trained.steps() ? 1u : 0u) << "batch " << i;
  stop = false;
  options.resume = true;
  options.replicas = 3;
  const auto found = trained.fit(coordinator, data, options);
  EXPECT_EQ(found.end, fit_end::done);
  EXPECT_EQ(found.epochs.at(0).examples, 2 * batches);
  EXPECT_EQ(on.status()[0].updates, batches);
  for (std::uint64_t i = 1; i < batches - 1; ++i)
    EXPECT_EQ(reads.count(i), 1u) << "batch " << i;
}

/// The fit is told to stop when a replica has begun step 5 or a later one.
TEST(ServerModel, StopsASynchronousFitBetweenTwoSteps) {
  constexpr std::uint64_t batches = 300, last = 5;
  const one_device_strategy local{"cpu:0", {.replicas = 2}};
  const auto scope = local.scope();
  model alone{with_dropout(), sgd{}};
  alone.fit(numbered(batches, [](std::uint64_t) {}));
  std::atomic<bool> stop = false;
  const auto data = numbered(batches, [&](std::uint64_t i) {
    stop = stop || (i >= last && i + 1 < batches);
  });
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  server_fit_options options{
    .stop = &stop,
    .consistency = {.kind = consistency_kind::synchronous},
    .replicas = 2};
  EXPECT_EQ(trained.fit(coordinator, data, options).end, fit_end::interrupted);
  EXPECT_TRUE(coordinator.done());
  EXPECT_GE(trained.steps(), last);
  options.resume = true;
  options.stop = nullptr;
  EXPECT_EQ(trained.fit(coordinator, data, options).end, fit_end::done);
  EXPECT_EQ(trained.steps(), batches);
  EXPECT_EQ(trained.weights_sha256(), alone.weights_sha256());
}

TEST(ServerModel, NeedsNoMoreThanOneUnfinishedClosure) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 1}};
  cluster_coordinator coordinator{on, {.max_unfinished = 1}};
  server_model trained{on, "small", with_dropout(), sgd{}};
  trained.fit(
    coordinator, digits(64).batch(16),
    {.consistency = {.kind = consistency_kind::synchronous}, .replicas = 3});
  EXPECT_EQ(trained.steps(), 4u);
}

/// Replica 0 waits for steps of replica 1 that no closure makes any more.
TEST(ServerModel, EndsABoundedFitWhoseScheduleThrows) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  const auto data = digits(64 * 8).batch(8);
  server_fit_options options{
    .schedule = function_schedule{[](std::uint64_t step) -> float {
      if (step == 41)
        throw std::domain_error("no rate");
      return 0.01F;
    }},
    .consistency = {.kind = consistency_kind::bounded},
    .replicas = 2};
  EXPECT_THROW(trained.fit(coordinator, data, options), std::domain_error);
  EXPECT_TRUE(coordinator.done());
  options.schedule.reset();
  EXPECT_EQ(trained.fit(coordinator, data, options).end, fit_end::done);
}

TEST(ServerModel, CountsEachBatchOnceIfAnAsynchronousFitIsInterrupted) {
  constexpr std::uint64_t batches = 40;
  std::atomic<bool> stop = false;
  std::mutex lock; // guards `reads`
  std::multiset<std::uint64_t> reads;
  const auto data = numbered(batches, [&](std::uint64_t i) {
    const std::lock_guard hold{lock};
    if (i + 1 < batches) // a fit also reads the last batch to identify the data
      reads.insert(i);
    stop = stop || i == 4 || i == 29;
  });
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "small", with_dropout(), sgd{}};
  server_fit_options options{.stop = &stop, .replicas = 1};
  auto end = trained.fit(coordinator, data, options).end;
  EXPECT_EQ(end, fit_end::interrupted);
  EXPECT_EQ(*reads.rbegin() + 1, trained.steps());
  options.resume = true;
  while (end == fit_end::interrupted) {
    stop = false;
    end = trained.fit(coordinator, data, options).end;
  }
  EXPECT_EQ(trained.steps(), batches);
  EXPECT_EQ(on.status()[0].updates, batches);
  // A fit also reads batch 0 to know its shape.
  for (std::uint64_t i = 1; i < batches - 1; ++i)
    EXPECT_EQ(reads.count(i), 1u) << "batch " << i;
}

} // namespace
} // namespace troupe

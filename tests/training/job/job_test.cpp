#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/job/worker_task.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace troupe;
using names = std::vector<std::string>;

std::string error_text_of(const train_options& x) {
  try {
    resolve_options(x);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(TrainOptions, DefaultsAreResolved) {
  const auto config = resolve_options({});
  EXPECT_EQ(config.model, "mlp");
  EXPECT_EQ(config.data, "digits");
  EXPECT_EQ(config.strategy, "default");
  EXPECT_EQ(config.replicas, 1u);
  EXPECT_EQ(config.threads, 1);
  EXPECT_EQ(config.rule().name(), "adam");
}

TEST(TrainOptions, AMonitorNeedsAPatience) {
  EXPECT_EQ(resolve_options({}).monitor, "validation_loss");
  const auto config = resolve_options({.patience = 2, .monitor = "auc"});
  EXPECT_EQ(config.monitor, "auc");
  EXPECT_EQ(to_options(config).monitor, "auc");
  EXPECT_EQ(to_options(resolve_options({})).monitor, std::nullopt);
  EXPECT_EQ(error_text_of({.monitor = "auc"}),
            "--monitor auc: nothing is stopped early; give --patience too");
}

TEST(TrainOptions, OptionsImplyTheStrategy) {
  const auto mirrored = resolve_options({.devices = names{"cpu:0", "cpu:1"}});
  EXPECT_EQ(mirrored.strategy, "mirrored");
  EXPECT_EQ(mirrored.replicas, 2u);
  const auto turns = resolve_options({.replicas = 3});
  EXPECT_EQ(turns.strategy, "one_device");
  EXPECT_EQ(turns.replicas, 3u);
  EXPECT_EQ(resolve_options({.strategy = "mirrored", .replicas = 2}).devices,
            (names{"cpu:0", "cpu:1"}));
  const auto central =
    resolve_options({.strategy = "central_storage", .replicas = 2});
  EXPECT_EQ(central.strategy, "central_storage");
  EXPECT_EQ(central.replicas, 2u);
  EXPECT_EQ(central.devices, (names{"cpu:0", "cpu:1"}));
}

TEST(TrainOptions, CudaDevicesAreDividedAmongTheWorkers) {
  test::simulated_devices devices{4};
  const auto one = resolve_options({.devices = names{"gpu:0"}});
  EXPECT_EQ(one.strategy, "one_device");
  EXPECT_EQ(one.devices, names{"gpu:0"});
  EXPECT_EQ(
    resolve_options({.devices = names{"cuda:1"}, .workers = 2}).replicas, 2u);
  const auto both =
    resolve_options({.devices = names{"cuda:0", "gpu:1"}, .workers = 2});
  EXPECT_EQ(both.replicas, 2u);
  EXPECT_EQ(both.devices_of(0), names{"cuda:0"});
  EXPECT_EQ(both.devices_of(1), names{"gpu:1"});
  EXPECT_EQ(to_options(both).devices, (names{"cuda:0", "gpu:1"}));
  const auto processors =
    resolve_options({.devices = names{"cpu:0", "cpu:1"}, .workers = 2});
  EXPECT_EQ(processors.replicas, 4u);
  EXPECT_EQ(processors.devices_of(1), (names{"cpu:0", "cpu:1"}));
  const auto pairs = resolve_options(
    {.devices = names{"gpu:0", "gpu:1", "gpu:2", "gpu:3"}, .workers = 2});
  EXPECT_EQ(pairs.replicas, 4u);
  EXPECT_EQ(pairs.devices_of(0), (names{"gpu:0", "gpu:1"}));
  EXPECT_EQ(pairs.devices_of(1), (names{"gpu:2", "gpu:3"}));
  EXPECT_EQ(error_text_of({.devices = names{"cuda:0", "gpu:1"}, .workers = 3}),
            "--devices cuda:0,gpu:1: 3 workers cannot have equally many of "
            "them; give --workers 2, or a multiple of 3 devices");
  EXPECT_EQ(
    error_text_of(
      {.devices = names{"cuda:0", "gpu:1"}, .replicas = 4, .workers = 2}),
    "--replicas 4: 2 workers with 1 device each have 2; leave "
    "--replicas or --devices out");
  EXPECT_EQ(error_text_of({.devices = names{"cpu:0", "cpu:1", "gpu:1"}}),
            "--devices cpu:0,cpu:1,gpu:1: cpu:0 and cuda:1 cannot be used "
            "together; name devices of one kind");
  EXPECT_EQ(error_text_of({.devices = names{"gpu:4"}}),
            "--devices gpu:4: device 'gpu:4' does not exist: there are 4 CUDA "
            "devices, cuda:0 to cuda:3; CPUs are named cpu:0, cpu:1, ...");
}

TEST(TrainOptions, ErrorsNameOptionAndValue) {
  const test::simulated_devices none{0};
  const auto has = [](const train_options& x, const char* a, const char* b) {
    const auto said = error_text_of(x);
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find(b), said.npos) << said;
  };
  has({.epochs = 0}, "--epochs 0", "from 1");
  has({.batch = -3}, "--batch -3", "from 1");
  has({.threads = 0}, "--threads 0", "from 1");
  has({.replicas = 0}, "--replicas 0", "from 1");
  has({.learning_rate = -1}, "--learning-rate -1", "above 0");
  has({.on_nan = "cry"}, "--on-nan \"cry\"", "stop or skip");
  has({.precision = "fp16"}, "--precision \"fp16\"", "float32, bf16");
  has({.precision = "tf32"}, "--precision tf32: only GPUs", "float32 or bf16");

  has({.audit_steps = -1}, "--audit-steps -1", "from 0");
  has({.on_deviation = "cry"}, "--on-deviation \"cry\"", "stop or heal");
  has({.strategy = "mirorred"}, "mirorred", "mirrored");
  has({.optimizer = "adamm"}, "adamm", "adamw");
  has({.optimizer = "sgd:momentum"}, "momentum", "name=number");
  has({.optimizer = "sgd:speed=1"}, "speed", "momentum");
  has({.optimizer = "adam:learning_rate=0.1", .learning_rate = 0.2},
      "--optimizer adam:learning_rate=0.1", "leave one of the two out");
  has({.schedule = "linear"}, "linear", "cosine");
  has({.devices = names{"cpu:0", "cpu:0"}}, "--devices cpu:0", "twice");
  has({.devices = names{"cpu", "cpu:0"}}, "--devices cpu:0", "twice");
  has({.devices = names{"tpu:0"}}, "tpu:0", "cpu:0");
  has({.devices = names{"gpu:0"}},
      "--devices gpu:0: device 'gpu:0' cannot be used: ",
      ", or name cpu:0, cpu:1, ...");
  has({.strategy = "mirrored"}, "mirrored", "--devices");
  has({.devices = names{"cpu:0", "cpu:1"}, .replicas = 3}, "--replicas 3",
      "2 devices");
  has({.strategy = "central_storage"}, "--strategy central_storage",
      "--replicas");
  has({.strategy = "central_storage",
       .devices = names{"cpu:0", "cpu:1"},
       .replicas = 3},
      "--replicas 3", "central_storage has one replica on each of its 2");
  has({.strategy = "central_storage", .workers = 2}, "--workers 2",
      "central_storage strategy has one worker");
  has({.strategy = "central"}, "--strategy \"central\"",
      "mirrored, central_storage,");
  has({.strategy = "default", .replicas = 2}, "--replicas 2", "one_device");
  has({.strategy = "default", .devices = names{"cpu:1"}}, "cpu:1",
      "one_device");
  has({.strategy = "one_device", .devices = names{"cpu:0", "cpu:1"}},
      "--devices cpu:0,cpu:1", "mirrored");
  has({.batch = 1, .replicas = 2}, "--batch 1", "at least 2");
  using shares = std::vector<std::int64_t>;
  has({.replicas = 2, .replica_shares = shares{3}}, "--replica-shares 3",
      "2 replicas");
  has({.replica_shares = shares{3, 1}}, "--replica-shares 3,1", "1 replica;");
  has({.replicas = 2, .replica_shares = shares{3, 0}}, "--replica-shares 3,0",
      "from 1 to 1000000");
  has({.batch = 4, .replicas = 2, .replica_shares = shares{99, 1}},
      "--replica-shares 99,1", "leaves replica 1 without");
}

TEST(TrainOptions, ReplicasAreDividedEvenlyOverWorkers) {
  const auto two = resolve_options({.workers = 2});
  EXPECT_EQ(two.strategy, "multi_worker_mirrored");
  EXPECT_EQ(two.workers, 2u);
  EXPECT_EQ(two.replicas, 2u);
  EXPECT_EQ(two.devices, names{"cpu:0"});
  EXPECT_EQ(two.transport, "auto");
  const auto four =
    resolve_options({.replicas = 4, .workers = 2, .transport = "shm"});
  EXPECT_EQ(four.replicas, 4u);
  EXPECT_EQ(four.devices, (names{"cpu:0", "cpu:1"}));
  EXPECT_EQ(four.transport, "shm");
  EXPECT_EQ(resolve_options({.devices = names{"cpu:0", "cpu:1"}, .workers = 3})
              .replicas,
            6u);
  EXPECT_EQ(resolve_options({.strategy = "multi_worker_mirrored"}).workers, 1u);
  const auto uneven = resolve_options({.replicas = 4, .workers = 3});
  EXPECT_EQ(uneven.replicas, 4u);
  EXPECT_EQ(uneven.workers, 3u);
  EXPECT_EQ(uneven.devices, (names{"cpu:0", "cpu:1"}));
  EXPECT_EQ(resolve_options(to_options(uneven)).devices, uneven.devices);
  const auto has = [](const train_options& x, const char* a, const char* b) {
    const auto said = error_text_of(x);
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find(b), said.npos) << said;
  };
  has({.replicas = 1, .workers = 2}, "--replicas 1",
      "each of 2 workers needs a replica; give at least 2, or fewer workers");
  has({.workers = 0}, "--workers 0", "from 1 to 128");
  has({.devices = names{"cpu:0"}, .replicas = 4, .workers = 2}, "--replicas 4",
      "leave --replicas or --devices out");
  has({.strategy = "mirrored", .workers = 2}, "--workers 2",
      "--strategy multi_worker_mirrored");
  has({.transport = "tcp"}, "--transport tcp", "--workers");
  has({.workers = 2, .transport = "udp"}, "--transport \"udp\"", "tls");
  has({.collectives = "nccl"}, "--collectives nccl", "--workers");
  has({.workers = 2, .collectives = "nccl"}, "--collectives nccl",
      "the devices are cpu:0");
  has({.devices = names{"cpu:0", "cpu:1"}, .collectives = "nccl"},
      "--collectives nccl", "the devices are cpu:0,cpu:1; leave it out");
  has({.workers = 2, .collectives = "nccl", .servers = 1}, "--collectives nccl",
      "parameter servers have no collectives");
  has({.strategy = "default", .devices = names{"cpu:0", "cpu:1"}},
      "--devices cpu:0,cpu:1", "the default strategy computes on cpu:0");
  has({.workers = 2, .collectives = "mpi"}, "--collectives \"mpi\"", "nccl");
  has({.batch = 3, .workers = 4}, "--batch 3", "at least 4");
}

/// The launcher starts `workers` processes, each with its `devices_of`.
TEST(TrainOptions, SeveralCudaDevicesHaveAProcessEach) {
  const test::simulated_devices devices{4};
  const names three{"gpu:0", "cuda:1", "gpu:3"};
  const auto each = resolve_options({.devices = three});
  EXPECT_EQ(each.strategy, "multi_worker_mirrored");
  EXPECT_EQ(each.workers, 3u);
  EXPECT_EQ(each.replicas, 3u);
  for (std::size_t w = 0; w < three.size(); ++w)
    EXPECT_EQ(each.devices_of(w), names{three[w]});
  EXPECT_EQ(to_options(resolve_options(to_options(each))), to_options(each));
  const auto one = resolve_options({.devices = three, .workers = 1});
  EXPECT_EQ(one.workers, 1u);
  EXPECT_EQ(one.replicas, 3u);
  EXPECT_EQ(one.devices_of(0), three);
  const auto mirrored =
    resolve_options({.strategy = "mirrored", .devices = three});
  EXPECT_EQ(mirrored.workers, 1u);
  EXPECT_EQ(mirrored.devices_of(0), three);
  const auto processors = resolve_options({.devices = names{"cpu:0", "cpu:1"}});
  EXPECT_EQ(processors.strategy, "mirrored");
  EXPECT_EQ(processors.workers, 1u);
  EXPECT_EQ(resolve_options({.devices = three, .collectives = "nccl"}).workers,
            3u);
  EXPECT_EQ(error_text_of({.devices = names{"gpu:0", "gpu:0"}}),
            "--devices gpu:0: a device is named twice; name each device once, "
            "as in cpu:0,cpu:1");
  EXPECT_EQ(error_text_of({.devices = names{"gpu:0", "gpu:4"}}),
            "--devices gpu:4: device 'gpu:4' does not exist: there are 4 CUDA "
            "devices, cuda:0 to cuda:3; CPUs are named cpu:0, cpu:1, ...");
}

TEST(TrainOptions, GraphsNeedOneProcessOnAGpu) {
  const test::simulated_devices devices;
  const names gpu{"gpu:0"};
  EXPECT_EQ(resolve_options({.devices = gpu}).graph, graph_capture::off);
  EXPECT_EQ(resolve_options({.devices = gpu, .graph = "on"}).graph,
            graph_capture::on);
  EXPECT_EQ(resolve_options({.workers = 2, .graph = "off"}).graph,
            graph_capture::off);
  EXPECT_EQ(error_text_of({.graph = "on"}),
            "--graph on: only GPUs have graphs, and the devices are CPUs; "
            "leave it out, or give --devices gpu:0");
  EXPECT_EQ(error_text_of({.devices = gpu, .workers = 2, .graph = "on"}),
            "--graph on: the steps of several processes or devices cannot be "
            "captured yet; leave it out");
  EXPECT_EQ(error_text_of({.devices = names{"gpu:0", "gpu:1"}, .graph = "on"}),
            "--graph on: the steps of several processes or devices cannot be "
            "captured yet; leave it out");
  EXPECT_EQ(error_text_of({.devices = gpu, .graph = "auto"}),
            "--graph \"auto\": give on or off");
}

TEST(MergeForResume, GraphsCanChangeAndDependOnTheDevices) {
  const test::simulated_devices devices;
  const auto saved =
    to_options(resolve_options({.devices = names{"gpu:0"}, .graph = "on"}));
  const auto resumed = [&](const train_options& changes) {
    return resolve_options(merge_for_resume(saved, changes)).graph;
  };
  EXPECT_EQ(read_train_options(write_train_options(saved)), saved);
  EXPECT_EQ(resumed({}), graph_capture::on);
  EXPECT_EQ(resumed({.graph = "off"}), graph_capture::off);
  EXPECT_EQ(resumed({.devices = names{"cpu:0"}}), graph_capture::off);
  EXPECT_EQ(resumed({.devices = names{"gpu:1"}, .graph = "on"}),
            graph_capture::on);
}

TEST(TrainOptions, ResumeAllowsOtherProcessesWithEqualReplicas) {
  const auto saved = to_options(resolve_options({.replicas = 4, .workers = 2}));
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {})).workers, 2u);
  const auto wide = resolve_options(merge_for_resume(saved, {.workers = 4}));
  EXPECT_EQ(wide.workers, 4u);
  EXPECT_EQ(wide.replicas, 4u);
  EXPECT_EQ(
    resolve_options(merge_for_resume(saved, {.transport = "tcp"})).transport,
    "tcp");
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {.collectives = "host"}))
              .collectives,
            "host");
  const auto one =
    resolve_options(merge_for_resume(saved, {.strategy = "one_device"}));
  EXPECT_EQ(one.workers, 1u);
  EXPECT_EQ(one.replicas, 4u);
  EXPECT_EQ(
    resolve_options(merge_for_resume(to_options(one), {.workers = 2})).replicas,
    4u);
  EXPECT_EQ(read_train_options(write_train_options(saved)), saved);
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {.workers = 3})).replicas,
            4u);
}

TEST(MergeForResume, OtherReplicasNeedTheirOption) {
  const auto saved = to_options(resolve_options({.replicas = 4, .workers = 2}));
  try {
    merge_for_resume(saved, {.replicas = 3, .workers = 3});
    ADD_FAILURE() << "no error";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "--resume: the run had 4 replicas, and would have 3; give a "
                 "strategy with 4, or --other-replicas if the weights may have "
                 "other bits");
  }
  for (const train_options& changes :
       {train_options{.replicas = 3, .workers = 3, .other_replicas = true},
        train_options{.workers = 3, .other_replicas = true}}) {
    const auto merged = merge_for_resume(saved, changes);
    EXPECT_EQ(resolve_options(merged).replicas, 3u);
    EXPECT_FALSE(merged.other_replicas);
  }
  EXPECT_THROW(merge_for_resume(saved, {.workers = 3,
                                        .servers = 1,
                                        .consistency = "sync",
                                        .other_replicas = true}),
               std::invalid_argument);
}

TEST(TrainOptions, PrecisionIsThatOfTheRunToResume) {
  const auto config = resolve_options({.precision = "bf16"});
  EXPECT_EQ(config.precision, models::precision::bf16);
  EXPECT_EQ(resolve_options({}).precision, models::precision::float32);
  const auto saved = to_options(config);
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {})).precision,
            models::precision::bf16);
  try {
    merge_for_resume(saved, {.precision = "float32"});
    FAIL() << "no error";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "--precision \"float32\": the run to resume has "
                           "\"bf16\"; leave the option out");
  }
}

TEST(TrainOptions, ParsesSettingsOfOptimizerAndSchedule) {
  const auto config =
    resolve_options({.optimizer = "sgd:momentum=0.9,nesterov=1",
                     .learning_rate = 0.25,
                     .schedule = "step:every=10,factor=0.5"});
  EXPECT_FLOAT_EQ(config.rule().learning_rate(), 0.25f);
  EXPECT_EQ(config.rule().slots(), 1u);
  EXPECT_FLOAT_EQ(config.learning_rate_schedule(100).at(9), 0.25f);
  EXPECT_FLOAT_EQ(config.learning_rate_schedule(100).at(10), 0.125f);
  const hyperparameters of_ftrl{{"learning_rate", 0.001},
                                {"initial_accumulator_value", 0.1},
                                {"l1_regularization_strength", 0.01},
                                {"l2_regularization_strength", 0},
                                {"l2_shrinkage_regularization_strength", 0},
                                {"beta", 1}};
  EXPECT_EQ(resolve_options(
              {.optimizer = "ftrl:l1_regularization_strength=0.01,beta=1"})
              .rule()
              .numbers(),
            of_ftrl);
  const auto cosine = resolve_options({.schedule = "cosine"});
  EXPECT_FLOAT_EQ(cosine.learning_rate_schedule(100).at(100), 0);
  EXPECT_FLOAT_EQ(cosine.learning_rate_schedule(100).at(0), 1e-3f);
}

TEST(TrainOptions, TextRoundTripIsEqual) {
  train_options x{
    .model = "lenet", .seed = ~0ull, .devices = names{"cpu:0", "cpu:1"}};
  x.learning_rate = 0.1;
  x.replica_shares = std::vector<std::int64_t>{3, 1};
  x.audit_steps = 0;
  x.on_deviation = "heal";
  EXPECT_EQ(read_train_options(write_train_options(x)), x);
  EXPECT_EQ(read_train_options(write_train_options({})), train_options{});
  const auto all = to_options(resolve_options(x));
  EXPECT_EQ(to_options(resolve_options(all)), all);
  EXPECT_THROW(read_train_options(""), std::runtime_error);
  EXPECT_THROW(read_train_options("[1]"), std::runtime_error);
  EXPECT_THROW(read_train_options(R"({"epochs": "many"})"), std::runtime_error);
}

TEST(TrainOptions, NumbersOutOfRangeAreRejected) {
  for (const char* text :
       {R"({"epochs":1e300})", R"({"epochs":2.5})", R"({"seed":-1})",
        R"({"batch":18446744073709551615})", R"({"threads":true})",
        R"({"replica-shares":[3,1e300]})", R"({"replica-shares":3})"})
    EXPECT_THROW(read_train_options(text), std::runtime_error) << text;
  EXPECT_EQ(read_train_options(R"({"seed":18446744073709551615})").seed,
            ~std::uint64_t{0});
}

TEST(TrainOptions, ErrorsAreOneShortLine) {
  const auto strange = "\n\x1b[2J" + std::string(5000, 'x');
  const names many_names(5000, "cpu:0");
  for (const auto& options :
       {train_options{.optimizer = strange}, train_options{.schedule = strange},
        train_options{.on_nan = strange}, train_options{.strategy = strange},
        train_options{.devices = names{strange}},
        train_options{.transport = strange},
        train_options{.collectives = strange}, train_options{.graph = strange},
        train_options{.optimizer = "sgd:" + strange},
        train_options{.devices = many_names}}) {
    const auto message = error_text_of(options);
    EXPECT_NE(message, "no error");
    EXPECT_LT(message.size(), 1000u);
    EXPECT_TRUE(std::ranges::none_of(
      message, [](unsigned char c) { return c < ' ' || c == 127; }))
      << message;
  }
}

TEST(MergeForResume, AcceptsOptionsThatKeepTheWeights) {
  const auto saved = to_options(resolve_options({.replicas = 2}));
  const auto mirrored = resolve_options(
    merge_for_resume(saved, {.devices = names{"cpu:0", "cpu:1"}}));
  EXPECT_EQ(mirrored.strategy, "mirrored");
  EXPECT_EQ(mirrored.replicas, 2u);
  EXPECT_EQ(
    resolve_options(merge_for_resume(saved, {.strategy = "mirrored"})).replicas,
    2u);
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {.epochs = 9})).epochs, 9u);
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {.batch = 64})).batch, 64u);
  EXPECT_EQ(resolve_options(merge_for_resume(saved, {})).replicas, 2u);
}

TEST(MergeForResume, KeepsTheServersOfARun) {
  const auto saved = to_options(resolve_options(
    {.workers = 2, .servers = 3, .consistency = "sync", .replication = 2}));
  const auto resumed = [&](const train_options& x) {
    return resolve_options(merge_for_resume(saved, x));
  };
  for (const auto& changes :
       {train_options{}, train_options{.strategy = "parameter_server"},
        train_options{.workers = 2, .servers = 3}}) {
    const auto same = to_options(resumed(changes));
    EXPECT_EQ(same, saved) << write_train_options(same);
  }
  const auto wide = resumed({.workers = 4, .servers = 5, .replication = 1});
  EXPECT_EQ(wide.strategy, "parameter_server");
  EXPECT_EQ(wide.workers, 4u);
  EXPECT_EQ(wide.servers, 5u);
  EXPECT_EQ(wide.consistency, "sync");
  EXPECT_EQ(wide.replication, 1u);
  EXPECT_EQ(wide.replicas, 2u); // as the run had
  const auto without = resumed({.strategy = "one_device"});
  EXPECT_EQ(without.replicas, 2u);
  EXPECT_EQ(without.servers, 0u);
  const auto mirrored = resumed({.devices = names{"cpu:0", "cpu:1"}});
  EXPECT_EQ(mirrored.strategy, "mirrored");
  const auto back = resolve_options(merge_for_resume(
    to_options(without), {.servers = 1, .consistency = "sync"}));
  EXPECT_EQ(back.replicas, 2u);
}

TEST(MergeForResume, KeepsTheConsistencyOfTablesWithThatOfAllParameters) {
  const auto saved =
    to_options(resolve_options({.replicas = 2,
                                .workers = 2,
                                .servers = 1,
                                .consistency = "sync",
                                .table_consistency = "ssp:1"}));
  EXPECT_EQ(saved.table_consistency, "ssp:1");
  EXPECT_EQ(read_train_options(write_train_options(saved)), saved);
  const auto of_tables = [&](const train_options& x) {
    return resolve_options(merge_for_resume(saved, x)).table_consistency;
  };
  EXPECT_EQ(of_tables({}), "ssp:1");
  EXPECT_EQ(of_tables({.workers = 3}), "ssp:1");
  EXPECT_EQ(of_tables({.table_consistency = "async"}), "async");
  EXPECT_EQ(of_tables({.consistency = "sync"}), "");
  EXPECT_EQ(
    of_tables({.consistency = "sync-backup:1", .table_consistency = "ssp:2"}),
    "ssp:2");
  EXPECT_EQ(of_tables({.strategy = "one_device"}), "");
}

TEST(MergeForResume, ChangesTheWorkersOfAsynchronousRuns) {
  for (const auto* kind : {"async", "ssp:2"}) {
    const auto saved = to_options(
      resolve_options({.workers = 2, .servers = 2, .consistency = kind}));
    const auto wide = resolve_options(merge_for_resume(saved, {.workers = 3}));
    EXPECT_EQ(wide.workers, 3u);
    EXPECT_EQ(wide.servers, 2u);
    EXPECT_EQ(wide.consistency, kind);
    EXPECT_EQ(wide.replicas, *kind == 'a' ? 3u : 2u);
    const auto alone =
      resolve_options(merge_for_resume(saved, {.strategy = "one_device"}));
    EXPECT_EQ(alone.replicas, 1u);
    const auto synchronous =
      resolve_options(merge_for_resume(saved, {.consistency = "sync"}));
    EXPECT_EQ(synchronous.replicas, 1u);
    EXPECT_THROW(
      merge_for_resume(saved, {.replicas = 2, .consistency = "sync"}),
      std::invalid_argument);
  }
}

TEST(MergeForResume, RejectsConsistencyThatChangesTheWeights) {
  const auto error_of = [](const train_options& was,
                           const train_options& changes) -> std::string {
    try {
      merge_for_resume(to_options(resolve_options(was)), changes);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "no error";
  };
  for (const auto& was :
       {train_options{.workers = 2, .servers = 1, .consistency = "sync"},
        train_options{.replicas = 2}})
    for (const auto* kind : {"async", "ssp:1", "sync-backup:1"})
      EXPECT_NE(error_of(was, {.workers = 2, .consistency = kind})
                  .find(std::string{"--consistency "} + kind),
                std::string::npos)
        << kind;
  EXPECT_NE(error_of({}, {.servers = 1}).find("--consistency async"),
            std::string::npos);
  EXPECT_EQ(error_of({.workers = 2, .servers = 1, .consistency = "sync"},
                     {.consistency = "async"}),
            "--consistency async: the run to resume ends with the same "
            "weights whatever its workers do, and would not; give sync");
  EXPECT_EQ(error_of({.workers = 2, .servers = 1, .consistency = "sync"},
                     {.table_consistency = "ssp:1"}),
            "--table-consistency ssp:1: the run to resume ends with the same "
            "weights whatever its workers do, and would not; leave it out");
  EXPECT_EQ(
    error_of(
      {.servers = 1, .consistency = "sync", .table_consistency = "ssp:1"},
      {.replicas = 2}),
    "--resume: the run had 1 replica, and would have 2; give a "
    "strategy with 1");
  // One replica makes the same steps.
  EXPECT_EQ(error_of({.servers = 1, .consistency = "sync"},
                     {.table_consistency = "async"}),
            "no error");
  EXPECT_EQ(error_of({}, {.consistency = "ssp:1"}), "no error");
  EXPECT_EQ(error_of({.servers = 1, .consistency = "ssp:1"}, {.workers = 3}),
            "no error");
}

TEST(MergeForResume, RejectsOptionsThatChangeTheWeights) {
  const auto saved = to_options(resolve_options({.replicas = 2}));
  const auto error_of = [&](const train_options& x) -> std::string {
    try {
      merge_for_resume(saved, x);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(
    error_of({.batch = 32}).find("--batch 32: the run to resume has 64"),
    std::string::npos);
  const auto falling = to_options(resolve_options({.schedule = "cosine"}));
  EXPECT_THROW(merge_for_resume(falling, {.epochs = 9}), std::invalid_argument);
  EXPECT_EQ(merge_for_resume(falling, {.epochs = 5}).epochs, 5);
  const auto fixed =
    to_options(resolve_options({.schedule = "cosine:steps=900"}));
  EXPECT_EQ(merge_for_resume(fixed, {.epochs = 9}).epochs, 9);
  EXPECT_NE(error_of({.seed = 2}).find("--seed"), std::string::npos);
  EXPECT_NE(error_of({.threads = 2}).find("--threads"), std::string::npos);
  EXPECT_NE(
    error_of({.replica_shares = std::vector<std::int64_t>{3, 1}})
      .find("--replica-shares [3,1]: the run to resume has the default"),
    std::string::npos);
  EXPECT_NE(error_of({.replicas = 3}).find("2 replicas"), std::string::npos);
  EXPECT_NE(error_of({.strategy = "default"}).find("replicas"),
            std::string::npos);
}

TEST(MergeForResume, KeepsTheColumnsOfTheTable) {
  auto config = resolve_options({.data = "csv:t.csv"});
  config.columns = {"a", "b"};
  config.labels = {"kind"};
  const auto saved =
    read_train_options(write_train_options(to_options(config)));
  EXPECT_EQ(saved, to_options(config));
  const auto again = resolve_options(merge_for_resume(saved, {.workers = 1}));
  EXPECT_EQ(again.columns, config.columns);
  EXPECT_EQ(again.labels, config.labels);
}

TEST(WorkerTask, IsReadAsItWasWritten) {
  const worker_task task{
    .options = to_options(resolve_options({.model = "a.json", .batch = 7})),
    .model = models::lenet(),
    .data = "batches per epoch: 3\n"};
  const auto found = read_worker_task(write_worker_task(task));
  EXPECT_EQ(found.options, task.options);
  EXPECT_EQ(models::to_json_text(found.model),
            models::to_json_text(task.model));
  EXPECT_EQ(found.data, task.data);
}

TEST(WorkerTask, AnotherTextIsRejected) {
  const auto error_of = [](const std::string& text) {
    return test::text_of([&] { read_worker_task(text); });
  };
  for (const auto* text : {"", "[]", "{}", R"({"options": 1})"})
    EXPECT_EQ(error_of(text),
              "the chief has sent a task without \"options\"; use one version "
              "of Troupe in all tasks");
  EXPECT_NE(error_of(R"({"options": {}, "model": {}, "data": ""})")
              .find("the model of the chief"),
            std::string::npos);
}

} // namespace

#include "troupe/training/job/job.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace troupe;
using names = std::vector<std::string>;

std::string refused(const job& x) {
  try {
    settle(x);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(TrainOptions, DefaultsAreResolved) {
  const auto x = settle({});
  EXPECT_EQ(x.model, "mlp");
  EXPECT_EQ(x.data, "digits");
  EXPECT_EQ(x.strategy, "default");
  EXPECT_EQ(x.replicas, 1u);
  EXPECT_EQ(x.threads, 1);
  EXPECT_EQ(x.rule().name(), "adam");
}

TEST(TrainOptions, OptionsImplyTheStrategy) {
  const auto mirrored = settle({.devices = names{"cpu:0", "cpu:1"}});
  EXPECT_EQ(mirrored.strategy, "mirrored");
  EXPECT_EQ(mirrored.replicas, 2u);
  const auto turns = settle({.replicas = 3});
  EXPECT_EQ(turns.strategy, "one_device");
  EXPECT_EQ(turns.replicas, 3u);
  EXPECT_EQ(settle({.strategy = "mirrored", .replicas = 2}).devices,
            (names{"cpu:0", "cpu:1"}));
}

TEST(TrainOptions, ErrorsNameOptionAndValue) {
  const auto has = [](const job& x, const char* a, const char* b) {
    const auto said = refused(x);
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find(b), said.npos) << said;
  };
  has({.epochs = 0}, "--epochs 0", "from 1");
  has({.batch = -3}, "--batch -3", "from 1");
  has({.threads = 0}, "--threads 0", "from 1");
  has({.replicas = 0}, "--replicas 0", "from 1");
  has({.learning_rate = -1}, "--learning-rate -1", "above 0");
  has({.on_nan = "cry"}, "--on-nan \"cry\"", "stop or skip");
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
  has({.strategy = "mirrored"}, "mirrored", "--devices");
  has({.devices = names{"cpu:0", "cpu:1"}, .replicas = 3}, "--replicas 3",
      "2 devices");
  has({.strategy = "default", .replicas = 2}, "--replicas 2", "one_device");
  has({.strategy = "default", .devices = names{"cpu:1"}}, "cpu:1",
      "one_device");
  has({.strategy = "one_device", .devices = names{"cpu:0", "cpu:1"}},
      "2 devices", "mirrored");
  has({.batch = 1, .replicas = 2}, "--batch 1", "at least 2");
}

TEST(TrainOptions, ReplicasAreDividedEvenlyOverWorkers) {
  const auto two = settle({.workers = 2});
  EXPECT_EQ(two.strategy, "multi_worker_mirrored");
  EXPECT_EQ(two.workers, 2u);
  EXPECT_EQ(two.replicas, 2u);
  EXPECT_EQ(two.devices, names{"cpu:0"});
  EXPECT_EQ(two.transport, "auto");
  const auto four = settle({.replicas = 4, .workers = 2, .transport = "shm"});
  EXPECT_EQ(four.replicas, 4u);
  EXPECT_EQ(four.devices, (names{"cpu:0", "cpu:1"}));
  EXPECT_EQ(four.transport, "shm");
  EXPECT_EQ(settle({.devices = names{"cpu:0", "cpu:1"}, .workers = 3}).replicas,
            6u);
  EXPECT_EQ(settle({.strategy = "multi_worker_mirrored"}).workers, 1u);
  const auto has = [](const job& x, const char* a, const char* b) {
    const auto said = refused(x);
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find(b), said.npos) << said;
  };
  has({.replicas = 3, .workers = 2}, "--replicas 3", "multiple of 2");
  has({.workers = 0}, "--workers 0", "from 1 to 128");
  has({.devices = names{"cpu:0"}, .replicas = 4, .workers = 2}, "--replicas 4",
      "leave --replicas or --devices out");
  has({.strategy = "mirrored", .workers = 2}, "--workers 2",
      "--strategy multi_worker_mirrored");
  has({.transport = "tcp"}, "--transport tcp", "--workers");
  has({.workers = 2, .transport = "udp"}, "--transport \"udp\"", "tls");
  has({.batch = 3, .workers = 4}, "--batch 3", "at least 4");
}

TEST(TrainOptions, ResumeAllowsOtherProcessesWithEqualReplicas) {
  const auto saved = given_by(settle({.replicas = 4, .workers = 2}));
  EXPECT_EQ(settle(resumed(saved, {})).workers, 2u);
  const auto wide = settle(resumed(saved, {.workers = 4}));
  EXPECT_EQ(wide.workers, 4u);
  EXPECT_EQ(wide.replicas, 4u);
  EXPECT_EQ(settle(resumed(saved, {.transport = "tcp"})).transport, "tcp");
  const auto one = settle(resumed(saved, {.strategy = "one_device"}));
  EXPECT_EQ(one.workers, 1u);
  EXPECT_EQ(one.replicas, 4u);
  EXPECT_EQ(settle(resumed(given_by(one), {.workers = 2})).replicas, 4u);
  EXPECT_EQ(read_job(write_job(saved)), saved);
}

TEST(TrainOptions, ParsesSettingsOfOptimizerAndSchedule) {
  const auto x = settle({.optimizer = "sgd:momentum=0.9,nesterov=1",
                         .learning_rate = 0.25,
                         .schedule = "step:every=10,factor=0.5"});
  EXPECT_FLOAT_EQ(x.rule().learning_rate(), 0.25f);
  EXPECT_EQ(x.rule().slots(), 1u);
  EXPECT_FLOAT_EQ(x.rates(100).at(9), 0.25f);
  EXPECT_FLOAT_EQ(x.rates(100).at(10), 0.125f);
  const auto cosine = settle({.schedule = "cosine"});
  EXPECT_FLOAT_EQ(cosine.rates(100).at(100), 0);
  EXPECT_FLOAT_EQ(cosine.rates(100).at(0), 1e-3f);
}

TEST(TrainOptions, TextRoundTripIsEqual) {
  job x{.model = "lenet", .seed = ~0ull, .devices = names{"cpu:0", "cpu:1"}};
  x.learning_rate = 0.1;
  EXPECT_EQ(read_job(write_job(x)), x);
  EXPECT_EQ(read_job(write_job({})), job{});
  const auto all = given_by(settle(x));
  EXPECT_EQ(given_by(settle(all)), all);
  EXPECT_THROW(read_job(""), std::runtime_error);
  EXPECT_THROW(read_job("[1]"), std::runtime_error);
  EXPECT_THROW(read_job(R"({"epochs": "many"})"), std::runtime_error);
}

TEST(TrainOptions, NumbersOutOfRangeAreRejected) {
  for (const char* text :
       {R"({"epochs":1e300})", R"({"epochs":2.5})", R"({"seed":-1})",
        R"({"batch":18446744073709551615})", R"({"threads":true})"})
    EXPECT_THROW(read_job(text), std::runtime_error) << text;
  EXPECT_EQ(read_job(R"({"seed":18446744073709551615})").seed,
            ~std::uint64_t{0});
}

TEST(TrainOptions, ErrorsAreOneShortLine) {
  const auto strange = "\n\x1b[2J" + std::string(5000, 'x');
  const names many(5000, "cpu:0");
  for (const auto& x :
       {job{.optimizer = strange}, job{.schedule = strange},
        job{.on_nan = strange}, job{.strategy = strange},
        job{.devices = names{strange}}, job{.transport = strange},
        job{.optimizer = "sgd:" + strange}, job{.devices = many}}) {
    const auto said = refused(x);
    EXPECT_NE(said, "no error");
    EXPECT_LT(said.size(), 1000u);
    EXPECT_TRUE(std::ranges::none_of(
      said, [](unsigned char c) { return c < ' ' || c == 127; }))
      << said;
  }
}

TEST(MergeForResume, AcceptsOptionsThatKeepTheWeights) {
  const auto saved = given_by(settle({.replicas = 2}));
  const auto mirrored =
    settle(resumed(saved, {.devices = names{"cpu:0", "cpu:1"}}));
  EXPECT_EQ(mirrored.strategy, "mirrored");
  EXPECT_EQ(mirrored.replicas, 2u);
  EXPECT_EQ(settle(resumed(saved, {.strategy = "mirrored"})).replicas, 2u);
  EXPECT_EQ(settle(resumed(saved, {.epochs = 9})).epochs, 9u);
  EXPECT_EQ(settle(resumed(saved, {.batch = 64})).batch, 64u);
  EXPECT_EQ(settle(resumed(saved, {})).replicas, 2u);
}

TEST(MergeForResume, RejectsOptionsThatChangeTheWeights) {
  const auto saved = given_by(settle({.replicas = 2}));
  const auto said = [&](const job& x) -> std::string {
    try {
      resumed(saved, x);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(said({.batch = 32}).find("--batch 32: the run to resume has 64"),
            std::string::npos);
  const auto falling = given_by(settle({.schedule = "cosine"}));
  EXPECT_THROW(resumed(falling, {.epochs = 9}), std::invalid_argument);
  EXPECT_EQ(resumed(falling, {.epochs = 5}).epochs, 5);
  const auto fixed = given_by(settle({.schedule = "cosine:steps=900"}));
  EXPECT_EQ(resumed(fixed, {.epochs = 9}).epochs, 9);
  EXPECT_NE(said({.seed = 2}).find("--seed"), std::string::npos);
  EXPECT_NE(said({.threads = 2}).find("--threads"), std::string::npos);
  EXPECT_NE(said({.replicas = 3}).find("2 replicas"), std::string::npos);
  EXPECT_NE(said({.strategy = "default"}).find("replicas"), std::string::npos);
}

} // namespace

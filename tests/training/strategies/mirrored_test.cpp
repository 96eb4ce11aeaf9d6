#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <set>
#include <thread>

namespace {

using namespace troupe;

class Mirrored : public scratch_test {
protected:
  mirrored_strategy mirrored_over(std::size_t devices,
                                  const mirrored_options& options = {}) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < devices; ++i)
      names.push_back("cpu:" + std::to_string(i));
    return {actors, names, options};
  }

  static model net() { return {small_net(true), adam{}, {.seed = 5}}; }

  /// Returns batches of 16 and a last batch of 8. With three replicas, the
  /// parts of a batch differ in size too.
  static data::dataset batches() { return digits_200().shuffle().batch(16); }

  static data::dataset batches_in_order() { return digits_200().batch(16); }

  static std::string weights_after_fit(const strategy& on,
                                       const fit_options& options) {
    const auto scope = on.scope();
    auto it = net();
    it.fit(batches(), options);
    return it.weights_sha256();
  }

  runtime actors;
};

TEST_F(Mirrored, WeightsEqualThoseOfReplicasInTurn) {
  for (const std::uint32_t replicas : {1, 2, 3, 4}) {
    const fit_options options{.epochs = 2};
    const auto expected = weights_after_fit(turns(replicas), options);
    for (int run = 0; run < 3; ++run)
      EXPECT_EQ(weights_after_fit(mirrored_over(replicas), options), expected)
        << replicas << " replicas, run " << run;
  }
}

TEST_F(Mirrored, EvaluationIsBitwiseEqualToReplicasInTurn) {
  const auto found = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = net();
    return it.evaluate(digits_200().batch(48));
  };
  const auto a = found(mirrored_over(2)), b = found(turns(2));
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.accuracy, b.accuracy);
  EXPECT_EQ(a.examples, 200u);
}

TEST_F(Mirrored, EachReplicaHasItsOwnThread) {
  const auto ids =
    mirrored_over(3).run([] { return std::this_thread::get_id(); }).values();
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 3u);
}

TEST_F(Mirrored, SumsAndGathersAmongItsReplicas) {
  mirrored_over(3).run([](replica_context& self) {
    const auto value = static_cast<float>(self.replica_id() + 1);
    const auto x = tensor::full({1000}, value);
    EXPECT_EQ(self.all_reduce(sum, x).data<float>()[999], 6.0f);
    EXPECT_EQ(self.all_reduce(mean, x).data<float>()[0], 2.0f);
    const auto all = self.all_gather(
      tensor::full({std::int64_t{self.replica_id()} + 1}, value));
    EXPECT_TRUE(same_bits(all, tensor::of<float>({6}, {1, 2, 2, 3, 3, 3})));
    EXPECT_EQ(self.all_reduce(sum, tensor::full({}, value, dtype::int32))
                .item<std::int32_t>(),
              6);
  });
}

TEST_F(Mirrored, ExceptionOfAReplicaIsRethrownAndTheNextRunSucceeds) {
  struct custom_error {};
  const auto two = mirrored_over(2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(two.run([](replica_context& self) {
      if (self.replica_id() == 1)
        throw custom_error{};
      self.all_reduce(sum, tensor::full({4}, 1));
    }),
                 custom_error);
    EXPECT_EQ(two.run([] { return 7; })[1], 7);
  }
}

TEST_F(Mirrored, StepTimeoutNamesTheMissingReplica) {
  const auto two =
    mirrored_over(2, {.step_timeout = std::chrono::milliseconds{300}});
  try {
    two.run([](replica_context& self) {
      if (self.replica_id() == 0)
        self.all_reduce(sum, tensor::full({4}, 1));
    });
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::stalled) << e.what();
    EXPECT_NE(std::string_view{e.what()}.find("replica 1"),
              std::string_view::npos)
      << e.what();
  }
  EXPECT_EQ(two.run([] { return 7; })[0], 7);
}

/// Whichever replica adds the sum, and although the other one has left the
/// step.
TEST_F(Mirrored, AnOmittedCollectiveNamesTheReplicaAtEachPlace) {
  for (const std::uint32_t omits : {0, 1})
    for (int calls = 0; calls < 3; ++calls) {
      const auto two =
        mirrored_over(2, {.step_timeout = std::chrono::milliseconds{300}});
      try {
        two.run([&](replica_context& self) {
          const auto ones = tensor::full({3}, 1);
          for (int i = 0; i < calls; ++i)
            self.all_reduce(sum, ones);
          if (self.replica_id() != omits)
            self.all_reduce(sum, ones);
        });
        FAIL() << "no error";
      } catch (const job_error& e) {
        const std::string said = e.what();
        EXPECT_EQ(e.code, ec::stalled) << said;
        EXPECT_NE(said.find("missing replica " + std::to_string(omits)),
                  said.npos)
          << said;
      }
    }
}

TEST_F(Mirrored, AnOmittedCollectiveAfterAnUpdateNamesTheReplica) {
  for (const std::uint32_t omits : {0, 1}) {
    const auto two =
      mirrored_over(2, {.step_timeout = std::chrono::milliseconds{300}});
    const auto scope = two.scope();
    auto model = net();
    try {
      two.run([&](replica_context& self) {
        tensors gradients;
        for (const auto& x : model.variables())
          gradients.push_back(tensor::full(x.dims(), 1));
        model.optimizer().apply(self.all_reduce(sum, gradients),
                                model.variables());
        if (self.replica_id() != omits)
          self.all_reduce(sum, tensor::full({3}, 1));
      });
      FAIL() << "no error";
    } catch (const job_error& e) {
      const std::string said = e.what();
      EXPECT_NE(said.find("missing replica " + std::to_string(omits)),
                said.npos)
        << said;
    }
  }
}

TEST_F(Mirrored, ResumesAFitOfAnotherStrategy) {
  const fit_options options{.epochs = 3};
  const auto undisturbed = weights_after_fit(turns(2), options);
  const auto two = mirrored_over(2);
  const strategy ways[][2] = {{two, turns(2)}, {turns(2), two}, {two, two}};
  for (const auto& [first_strategy, second_strategy] : ways) {
    {
      const auto scope = first_strategy.scope();
      auto it = net();
      it.fit(batches(), {.epochs = 3, .max_steps = 17});
      it.save(folder / "a");
    }
    const auto scope = second_strategy.scope();
    auto it = model::load(folder / "a");
    it.fit(batches(), {.epochs = 3, .resume = true});
    EXPECT_EQ(it.weights_sha256(), undisturbed)
      << first_strategy.name() << " to " << second_strategy.name();
  }
}

TEST_F(Mirrored, StopTakesEffectWithinTheStepWindowAndCanBeResumed) {
  const auto expected = weights_after_fit(turns(2), {.epochs = 3});
  std::atomic<bool> stop{false};
  const auto two = mirrored_over(2);
  const auto scope = two.scope();
  auto model = net();
  fit_options asked{.epochs = 3, .stop = &stop};
  asked.callbacks.push_back({.on_step = [&](const step_record& x) {
    if (x.step == 15)
      stop = true;
  }});
  EXPECT_EQ(model.fit(batches(), asked).end, fit_end::interrupted);
  EXPECT_GE(model.steps(), 16u);
  // While the callback handles step 15, at most the steps below 15 are
  // acknowledged. By the protocol (docs/protocols/step_commit.md), the chief
  // grants at most two step windows beyond the acknowledged steps.
  EXPECT_LE(model.steps(), 15 + 2 * default_step_window);
  asked.stop = nullptr;
  asked.resume = true;
  model.fit(batches(), asked);
  EXPECT_EQ(model.weights_sha256(), expected);
}

/// Returns examples in which the first pixel of example 64 is infinite. If they
/// are batched by 16, this example is in batch 4.
data::dataset with_infinity() {
  const auto all = digits_200();
  return {200, 10, [all](std::uint64_t i) {
            auto changed = all.examples(i, i + 1);
            auto inputs =
              changed.inputs.reshaped(changed.inputs.dims().axes(1, 4)).clone();
            if (i == 64)
              inputs.mutable_data<float>()[0] =
                std::numeric_limits<float>::infinity();
            return batch{inputs, changed.labels.reshaped({})};
          }};
}

TEST_F(Mirrored, NonFiniteLossSkipsTheUpdateOnAllReplicas) {
  for (const auto policy : {on_nan::stop, on_nan::skip}) {
    const auto after = [&](const strategy& on) {
      const auto scope = on.scope();
      auto model = net();
      std::string message;
      try {
        model.fit(with_infinity().batch(16), {.on_nan = policy});
      } catch (const std::runtime_error& e) {
        message = e.what();
      }
      EXPECT_EQ(message.find("at step 4;") != message.npos,
                policy == on_nan::stop)
        << message;
      return model.weights_sha256();
    };
    EXPECT_EQ(after(mirrored_over(3)), after(turns(3)));
  }
}

TEST_F(Mirrored, CustomLoopGivesEqualWeights) {
  const auto after = [](const strategy& strategy) {
    const auto scope = strategy.scope();
    auto model = net();
    optimizer optimizer{adam{}};
    for (const auto& step : strategy.distribute(batches()))
      strategy.run(
        [&](replica_context& self, const batch& mine) {
          tape t;
          const auto losses =
            models::cross_entropy(model(mine.inputs, {.training = true}),
                                  mine.labels)
            / 16;
          optimizer.apply(
            self.all_reduce(sum, t.gradient(losses, model.variables())),
            model.variables());
        },
        step);
    return model.weights_sha256();
  };
  EXPECT_EQ(after(mirrored_over(2)), after(turns(2)));
  EXPECT_EQ(after(mirrored_over(3)), after(turns(3)));
}

TEST_F(Mirrored, ReadErrorIsRethrownAfterWholeSteps) {
  const auto two = mirrored_over(2);
  const auto scope = two.scope();
  for (const std::size_t ahead : {0u, 2u})
    for (int bad = 0; bad < 160; bad += 16) {
      auto model = net();
      const auto dataset = digits_200();
      const data::dataset broken{
        200, 10, [dataset, bad](std::uint64_t i) {
          if (i == std::uint64_t(bad))
            throw std::runtime_error("the disk went away");
          auto x = dataset.examples(i, i + 1);
          return batch{x.inputs.reshaped(x.inputs.dims().axes(1, 4)),
                       x.labels.reshaped({})};
        }};
      try {
        model.fit(broken.batch(16), {.prefetch = ahead});
        ADD_FAILURE() << "no error";
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "the disk went away");
      }
      auto good = net();
      if (model.steps() > 0)
        good.fit(batches_in_order(), {.max_steps = model.steps()});
      EXPECT_EQ(model.weights_sha256(), good.weights_sha256());
    }
}

TEST_F(Mirrored, CallbackExceptionIsRethrownAfterWholeSteps) {
  const auto two = mirrored_over(2);
  const auto scope = two.scope();
  auto model = net();
  fit_options options;
  options.callbacks.push_back({.on_step = [](const step_record& x) {
    if (x.step == 2)
      throw std::runtime_error("enough");
  }});
  EXPECT_THROW(model.fit(batches_in_order(), options), std::runtime_error);
  auto good = net();
  good.fit(batches_in_order(), {.max_steps = model.steps()});
  EXPECT_EQ(model.weights_sha256(), good.weights_sha256());
}

TEST_F(Mirrored, UnknownOrRepeatedDevicesAreRejected) {
  EXPECT_THROW(mirrored_strategy(actors, {}), std::invalid_argument);
  EXPECT_THROW(mirrored_strategy(actors, {"cpu:0", "cpu:0"}),
               std::invalid_argument);
  EXPECT_THROW(mirrored_strategy(actors, {"cpu:0", "tpu:0"}),
               std::invalid_argument);
  EXPECT_THROW(mirrored_strategy(actors, {"cpu:0"}, {.threads = 0}),
               std::invalid_argument);
}

TEST_F(Mirrored, TwoRuntimesWorkInOneProcess) {
  runtime other;
  const mirrored_strategy there{other, {"cpu:0", "cpu:1"}};
  const auto here = mirrored_over(2);
  std::string seen;
  std::thread beside{[&] { seen = weights_after_fit(there, {.epochs = 1}); }};
  const auto mine = weights_after_fit(here, {.epochs = 1});
  beside.join();
  EXPECT_EQ(seen, mine);
}

} // namespace

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tests/support/denormals.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <stdexcept>

namespace {

using namespace troupe;
using namespace troupe::test;

constexpr std::size_t rows_per_batch = 16;
constexpr float tiny = 0x1p-100f;

/// Multiplies by 2^80. An intermediate product is denormal for `tiny`: with
/// flushed denormals the result is 0, otherwise 2^-20.
float pass_through_denormal(float x) {
  volatile float product = x * 0x1p-40f;
  product = product * 0x1p120f;
  return product;
}

/// Returns two batches of rows of `tiny`. The function of `map` multiplies each
/// row by 1 if denormals are flushed, otherwise by 1 + 2^-20.
data::dataset tiny_rows(std::size_t prefetch) {
  tensor inputs{{2 * rows_per_batch, 1}};
  std::ranges::fill(inputs.mutable_data<float>(), tiny);
  const auto labels = tensor::zeros({2 * rows_per_batch}, dtype::int32);
  return data::dataset{inputs, labels}
    .map([](const batch& x) {
      auto out = x.inputs.clone();
      for (auto& v : out.mutable_data<float>())
        v *= 1 + pass_through_denormal(v);
      return batch{out, x.labels};
    })
    .batch(rows_per_batch)
    .prefetch(prefetch);
}

/// Computes with denormals in the function of a `map`, in the code of a step
/// function and in its ops. Returns the sums of all replicas. The additions are
/// exact, so the sums do not depend on the number of replicas.
std::vector<float> sums_with_denormals(const strategy& on,
                                       std::size_t prefetch) {
  const auto scope = on.scope();
  const auto batches = on.distribute(tiny_rows(prefetch));
  std::vector<float> out;
  for (const auto& part : batches) {
    const auto sums = on.run(
      [](replica_context& self, const batch& mine) {
        float mapped = 0, own = 0;
        for (const auto v : mine.inputs.data<float>()) {
          mapped += v / tiny;
          own += 1 + pass_through_denormal(v);
        }
        const auto product = mine.inputs * tensor::full({1}, 0x1p-40);
        const auto of_ops =
          reduce_sum(product * tensor::full({1}, 0x1p120) + 1.0);
        // The other replicas wait meanwhile, and run on the same thread.
        self.all_reduce(sum, tensor::full({1}, 1));
        const float after_wait = pass_through_denormal(tiny);
        return self.all_reduce(
          sum, tensor::of<float>(
                 {4}, {mapped, own, of_ops.item<float>(), after_wait}));
      },
      part);
    for (const auto& one : sums)
      EXPECT_TRUE(same_bits(one, sums.values().front()));
    const auto first = sums.values().front().data<float>();
    out.insert(out.end(), first.begin(), first.end());
  }
  return out;
}

class Denormals : public ::testing::Test {
protected:
  void SetUp() override {
    if (!denormals_can_be_flushed)
      GTEST_SKIP() << "this processor has no mode that flushes denormals";
  }
  void TearDown() override { EXPECT_FALSE(flushes_denormals()); }

  /// Calls `fn(strategy)` for each kind of strategy, also on the threads of two
  /// workers.
  void on_each_strategy(const std::function<void(const strategy&)>& fn) {
    for (const strategy& each :
         {strategy{default_strategy{}}, strategy{turns(1)}, strategy{turns(2)},
          strategy{mirrored_strategy{actors, {"cpu:0"}}},
          strategy{mirrored_strategy{actors, {"cpu:0", "cpu:1"}}}}) {
      SCOPED_TRACE(each.name() + " of "
                   + std::to_string(each.num_replicas_in_sync()));
      fn(each);
    }
    for (const auto replicas_each : {1u, 2u})
      expect_success_on_workers(
        2, replicas_each, [&](const strategy& on, std::uint32_t) { fn(on); });
  }

  runtime actors;
};

TEST_F(Denormals, UserCodeHasTheSameResultsUnderEachStrategy) {
  constexpr auto n = static_cast<float>(rows_per_batch);
  for (const std::size_t prefetch : {0u, 2u})
    on_each_strategy([&](const strategy& on) {
      EXPECT_EQ(sums_with_denormals(on, prefetch),
                (std::vector<float>{n, n, n, 0, n, n, n, 0}));
    });
}

TEST_F(Denormals, ResultsDoNotDependOnTheModeOfTheCaller) {
  constexpr auto n = static_cast<float>(rows_per_batch);
  on_each_strategy([&](const strategy& on) {
    const flush_denormals mode_of_caller;
    EXPECT_EQ(sums_with_denormals(on, 0),
              (std::vector<float>{n, n, n, 0, n, n, n, 0}));
  });
}

TEST_F(Denormals, SumsOverReplicasFlush) {
  on_each_strategy([](const strategy& on) {
    const auto n = on.num_replicas_in_sync();
    if (n == 1)
      return; // Nothing is added.
    // The sum of the first two values is denormal, and the others are 0.
    const auto value_of = [](std::uint32_t id) {
      return tensor::full({4096}, id == 0   ? 0x1.8p-126
                                  : id == 1 ? -0x1p-126
                                            : 0.0);
    };
    const auto zeros = tensor::zeros({4096});
    for (const auto& total : on.run([&](replica_context& self) {
           return self.all_reduce(sum, value_of(self.replica_id()));
         }))
      EXPECT_TRUE(same_bits(total, zeros));
    const auto values = on.values_from(value_of);
    EXPECT_TRUE(same_bits(on.reduce(sum, values), zeros));
    EXPECT_EQ(on.reduce(sum, on.values_from([](std::uint32_t) {
                  // The sum over the axis is denormal.
                  return tensor::of<float>({2}, {0x1.8p-126f, -0x1p-126f});
                }),
                        {0})
                .item<float>(),
              0);
  });
}

TEST_F(Denormals, EvaluationAndPredictionFlush) {
  const auto images = tensor::full({8, 1}, tiny);
  models::dense product{1};
  product.kernel_initializer =
    initializer{"constant", std::array{hyperparameter{"value", 0x1p-40}}};
  const model it{{"product", {1}, models::stack(product)}, sgd{}};
  EXPECT_TRUE(same_bits(it.predict(images), tensor::zeros({8, 1})));
  EXPECT_TRUE(same_bits(it(images), tensor::zeros({8, 1})));
}

/// Adds 0 to each input of digits if denormals are flushed. Otherwise it
/// doubles the inputs.
data::dataset digits_through_denormals(std::size_t prefetch) {
  return digits_200()
    .map([](const batch& x) {
      auto out = x.inputs.clone();
      for (auto& v : out.mutable_data<float>()) {
        volatile float denormal = v * 0x1p-130f;
        v += denormal * 0x1p126f * 0x1p4f;
      }
      return batch{out, x.labels};
    })
    .batch(40)
    .prefetch(prefetch);
}

std::string weights_after_fit_of(const strategy& on,
                                 const data::dataset& batches,
                                 std::size_t prefetch) {
  const auto scope = on.scope();
  auto it = small_model();
  it.fit(batches, {.epochs = 1, .prefetch = prefetch});
  return it.weights_sha256();
}

TEST_F(Denormals, MapFunctionsGiveTheSameWeightsUnderEachStrategy) {
  const auto plain = digits_200().batch(40);
  std::map<std::uint32_t, std::string> expected; // By number of replicas.
  for (const auto replicas : {1u, 2u, 4u})
    expected[replicas] = weights_after_fit_of(turns(replicas), plain, 0);
  for (const std::size_t prefetch : {0u, 2u})
    on_each_strategy([&](const strategy& on) {
      EXPECT_EQ(
        weights_after_fit_of(on, digits_through_denormals(prefetch), prefetch),
        expected.at(on.num_replicas_in_sync()))
        << "prefetch " << prefetch;
    });
}

/// Counts calls, and those in which the thread flushes denormals.
struct mode_counter {
  std::atomic<int> calls = 0, flushed = 0;
  void operator()() {
    ++calls;
    flushed += flushes_denormals();
  }
};

TEST_F(Denormals, CallsAndCallbacksKeepTheModeOfTheCaller) {
  on_each_strategy([](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    mode_counter in_callbacks, in_maps, in_steps;
    const auto batches = digits_200()
                           .map([&](const batch& x) {
                             in_maps();
                             return x;
                           })
                           .take(80)
                           .batch(40);
    callback each;
    each.on_step = [&](const step_record&) { in_callbacks(); };
    each.on_epoch_end = [&](const epoch_record&) { in_callbacks(); };
    it.fit(
      batches,
      {.epochs = 2, .validation = batches, .callbacks = {each}, .prefetch = 0});
    EXPECT_FALSE(flushes_denormals());
    it.evaluate(batches);
    EXPECT_FALSE(flushes_denormals());
    const auto images = digits_200().examples(0, 10).inputs;
    it.predict(images);
    EXPECT_FALSE(flushes_denormals());
    it(images);
    EXPECT_FALSE(flushes_denormals());
    const auto values = on.run([&](replica_context& self) {
      in_steps();
      self.all_reduce(sum, tensor::full({1}, 1));
      in_steps();
      return tensor::full({1}, 1);
    });
    EXPECT_FALSE(flushes_denormals());
    on.reduce(sum, values);
    on.reduce(mean, values, {0});
    on.gather(values, 0);
    EXPECT_FALSE(flushes_denormals());
    EXPECT_THROW(on.run([] { throw std::runtime_error("test"); }),
                 std::exception);
    EXPECT_FALSE(flushes_denormals());
    EXPECT_GT(in_callbacks.calls, 0);
    EXPECT_EQ(in_callbacks.flushed, 0);
    EXPECT_GT(in_maps.calls, 0);
    EXPECT_EQ(in_maps.flushed, in_maps.calls);
    EXPECT_GT(in_steps.calls, 0);
    EXPECT_EQ(in_steps.flushed, in_steps.calls);
  });
}

TEST_F(Denormals, CallbacksHaveTheModeOfACallerThatFlushes) {
  const flush_denormals mode_of_caller;
  mode_counter in_callbacks;
  auto it = small_model();
  callback each;
  each.on_step = [&](const step_record&) { in_callbacks(); };
  it.fit(digits_200().batch(40), {.callbacks = {each}});
  EXPECT_EQ(in_callbacks.calls, 5);
  EXPECT_EQ(in_callbacks.flushed, 5);
  EXPECT_TRUE(flushes_denormals());
}

} // namespace

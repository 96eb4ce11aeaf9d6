#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace troupe;
using namespace troupe::test;

/// Calls `fn(strategy)` on every worker. Returns the result of `fn`, and
/// expects that it is equal on all workers.
template <class F>
auto expect_equal_on_all_workers(std::uint32_t workers, std::uint32_t each,
                                 F fn) {
  using value = decltype(fn(std::declval<const strategy&>()));
  std::vector<value> found(workers);
  expect_success_on_workers(
    workers, each,
    [&](const strategy& on, std::uint32_t w) { found[w] = fn(on); });
  for (const auto& one : found)
    EXPECT_EQ(one, found[0]);
  return found[0];
}

TEST(MultiWorker, WeightsEqualThoseOfOneProcess) {
  for (const auto& [workers, each] :
       {std::pair{1u, 2u}, {2u, 1u}, {3u, 1u}, {2u, 2u}, {3u, 2u}})
    EXPECT_EQ(expect_equal_on_all_workers(workers, each, weights_after_fit),
              weights_after_fit(turns(workers * each)))
      << workers << " workers with " << each;
}

TEST(MultiWorker, BatchesMappedAfterBatchingGiveEqualWeights) {
  const auto fit = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.fit(uneven_batches().map([](const batch& x) { return x; }));
    return it.weights_sha256();
  };
  EXPECT_EQ(expect_equal_on_all_workers(3, 1, fit), fit(turns(3)));
}

TEST(MultiWorker, ShortBatchesMayLeaveReplicasWithoutRows) {
  const auto fit = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.fit(digits_200().take(9).batch(4)); // The last batch has a single row.
    return it.weights_sha256();
  };
  EXPECT_EQ(expect_equal_on_all_workers(4, 1, fit), fit(turns(4)));
}

TEST(MultiWorker, EvaluationIsBitwiseEqualToOneProcess) {
  const auto evaluate = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    const auto x = it.evaluate(digits_200().batch(48));
    return std::tuple{x.loss, x.accuracy, x.examples};
  };
  EXPECT_EQ(expect_equal_on_all_workers(2, 1, evaluate), evaluate(turns(2)));
}

TEST(MultiWorker, WorkersAgreeOnTheMetrics) {
  const auto first_error = [](const std::function<void(model&, bool)>& fn) {
    const auto thrown =
      run_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
        const auto scope = on.scope();
        auto it = small_model();
        fn(it, w == 1);
      });
    EXPECT_EQ(exception_text(thrown[0]), exception_text(thrown[1]));
    return exception_text(thrown[0]);
  };
  const std::vector<models::metric> none;
  EXPECT_EQ(first_error([&](model& it, bool differs) {
              fit_options options;
              if (differs)
                options.metrics = none;
              it.fit(digits_200().batch(50), options);
            }),
            "worker 1 has \"metrics: none\", but worker 0 has \"metrics: "
            "accuracy (2)\"; all workers must train the same model on the same "
            "data with the same options");
  EXPECT_EQ(first_error([&](model& it, bool differs) {
              evaluate_options options;
              if (differs)
                options.metrics = none;
              it.evaluate(digits_200().batch(50), options);
            }),
            "worker 1 has \"metrics: none\", but worker 0 has \"metrics: "
            "accuracy (2)\"; all workers must evaluate the same model on the "
            "same data with the same metrics");
}

TEST(MultiWorker, ReplicaSharesGiveTheWeightsOfOneProcess) {
  const auto fit = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.fit(digits_200().batch(50), {.replica_shares = {3, 1, 2, 1}});
    return it.weights_sha256();
  };
  EXPECT_EQ(expect_equal_on_all_workers(2, 2, fit), fit(turns(4)));
}

TEST(MultiWorker, WorkersAgreeOnTheReplicaShares) {
  const auto thrown =
    run_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      it.fit(digits_200().batch(50),
             {.replica_shares = w == 1 ? std::vector<std::uint32_t>{1, 3}
                                       : std::vector<std::uint32_t>{3, 1}});
    });
  for (const auto& one : thrown)
    EXPECT_EQ(exception_text(one),
              "worker 1 has \"replica shares: 1,3\", but worker 0 has "
              "\"replica shares: 3,1\"; all workers must train the same model "
              "on the same data with the same options");
}

TEST(MultiWorker, WorkersAgreeOnEachDigitOfTheNumbers) {
  const auto thrown =
    run_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      const auto rate = w == 1 ? std::nextafter(0.5F, 1.0F) : 0.5F;
      model it{small_net(), sgd{.learning_rate = rate}};
      it.fit(digits_200().batch(50));
    });
  for (const auto& one : thrown)
    EXPECT_TRUE(exception_text(one).starts_with(
      "worker 1 has \"learning rate of the optimizer: 0.50000006"))
      << exception_text(one);
}

TEST(MultiWorker, PredictionsAreEqualOnAllWorkers) {
  const auto predict = [](const strategy& on) {
    const auto scope = on.scope();
    const auto x = small_model().predict(digits_200().batch(48));
    const auto all = x.data<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  EXPECT_EQ(expect_equal_on_all_workers(2, 1, predict), predict(turns(2)));
}

TEST(MultiWorker, ReportsWorkersAndReplicaIds) {
  expect_success_on_workers(
    3, 2, [](const strategy& strategy, std::uint32_t w) {
      EXPECT_EQ(strategy.workers(), 3u);
      EXPECT_EQ(strategy.worker(), w);
      EXPECT_EQ(strategy.is_chief(), w == 0);
      EXPECT_EQ(strategy.num_replicas_in_sync(), 6u);
      EXPECT_EQ(strategy.local_replica_ids(),
                (std::vector<std::uint32_t>{2 * w, 2 * w + 1}));
      const auto ids =
        strategy.values_from([](std::uint32_t id) { return id; });
      EXPECT_EQ(ids.values(), (std::vector<std::uint32_t>{2 * w, 2 * w + 1}));
      EXPECT_EQ(strategy.local_results(ids), ids.values());
      EXPECT_EQ(ids[2 * w + 1], 2 * w + 1);
      EXPECT_THROW(ids[(2 * w + 2) % 6], std::logic_error);
      strategy.run(
        [](replica_context& self, std::uint32_t mine) {
          EXPECT_EQ(self.replica_id(), mine);
          EXPECT_EQ(self.num_replicas_in_sync(), 6u);
        },
        ids);
    });
}

TEST(MultiWorker, ReducesAndGathersOverAllWorkers) {
  expect_success_on_workers(2, 2, [](const strategy& strategy, std::uint32_t) {
    const auto values = strategy.values_from([](std::uint32_t id) {
      return tensor::full({std::int64_t{id} + 1}, double(id) + 1);
    });
    const auto first = strategy.values_from(
      [](std::uint32_t id) { return tensor::full({2}, double(id) + 1); });
    EXPECT_EQ(strategy.reduce(sum, first).data<float>()[1], 10.0f);
    EXPECT_EQ(strategy.reduce(mean, first).data<float>()[1], 2.5f);
    // Replica i passes i + 1 elements of value i + 1. The sum over all 10
    // elements is 1 + 2 * 2 + 3 * 3 + 4 * 4.
    EXPECT_EQ(strategy.reduce(sum, values, {0}).item<float>(), 30.0f);
    EXPECT_EQ(strategy.reduce(sum, values, std::vector{-1}).item<float>(),
              30.0f);
    EXPECT_EQ(strategy.reduce(mean, values, {0}).item<float>(), 3.0f);
    EXPECT_TRUE(
      same_bits(strategy.gather(values, 0),
                tensor::of<float>({10}, {1, 2, 2, 3, 3, 3, 4, 4, 4, 4})));
    const auto numbers =
      strategy.values_from([](std::uint32_t id) { return 0.5 * id; });
    EXPECT_EQ(strategy.reduce(sum, numbers), 3.0);
    EXPECT_THROW(strategy.reduce(sum, tensor::full({}, 1)), std::logic_error);
    EXPECT_EQ(strategy.reduce(mean, tensor::full({}, 1)).item<float>(), 1.0f);
  });
}

TEST(MultiWorker, BroadcastsTheTensorOfOneReplica) {
  expect_success_on_workers(2, 2, [](const strategy& on, std::uint32_t) {
    on.run([](replica_context& self) {
      const auto own_tensor = tensor::full({3}, -0.0 + self.replica_id());
      for (std::uint32_t root = 0; root < 4; ++root) {
        const auto got = self.broadcast(
          root == self.replica_id() ? own_tensor : tensor{}, root);
        EXPECT_TRUE(same_bits(got, tensor::full({3}, double(root))));
      }
      EXPECT_THROW(self.broadcast(own_tensor, 4), std::logic_error);
    });
  });
}

TEST(MultiWorker, CustomLoopGivesEqualWeights) {
  const auto after = [](const strategy& strategy) {
    const auto scope = strategy.scope();
    auto model = small_model();
    optimizer optimizer{adam{}};
    double losses = 0;
    for (const auto& step : strategy.distribute(uneven_batches())) {
      const auto loss = strategy.run(
        [&](replica_context& self, const batch& mine) {
          tape t;
          auto loss = models::cross_entropy(
                        model(mine.inputs, {.training = true}), mine.labels)
                      / 16;
          optimizer.apply(
            self.all_reduce(sum, t.gradient(loss, model.variables())),
            model.variables());
          return loss;
        },
        step);
      losses += double(strategy.reduce(sum, loss, {0}).template item<float>());
    }
    return std::pair{model.weights_sha256(), losses};
  };
  EXPECT_EQ(expect_equal_on_all_workers(2, 1, after), after(turns(2)));
  EXPECT_EQ(expect_equal_on_all_workers(2, 2, after), after(turns(4)));
}

TEST(MultiWorker, EachLoopReadsTheNextEpochOnAllWorkers) {
  const auto orders = [](const strategy& strategy) {
    const auto batches = strategy.distribute(
      uneven_batches().map([](const batch& x) { return x; }));
    std::vector<std::vector<float>> passes;
    for (int pass = 0; pass < 3; ++pass) {
      auto& order = passes.emplace_back();
      for (const auto& step : batches) {
        std::vector<tensor> labels;
        for (const auto& part : step)
          labels.push_back(part.labels);
        const auto all =
          strategy.gather(per_replica<tensor>{labels, step.replica_ids()}, 0);
        for (const auto x : all.data<std::int32_t>())
          order.push_back(float(x));
      }
    }
    EXPECT_NE(passes[0], passes[1]);
    EXPECT_NE(passes[1], passes[2]);
    return passes;
  };
  EXPECT_EQ(expect_equal_on_all_workers(3, 1, orders), orders(turns(3)));
}

TEST(MultiWorker, SecondFitContinuesTheEpochsOfTheData) {
  const auto after = [](std::uint64_t fits, std::uint64_t epochs) {
    return [=](const strategy& on) {
      const auto scope = on.scope();
      auto it = small_model();
      for (std::uint64_t i = 0; i < fits; ++i)
        it.fit(uneven_batches(), {.epochs = epochs});
      return it.weights_sha256();
    };
  };
  EXPECT_EQ(expect_equal_on_all_workers(2, 1, after(3, 1)),
            after(1, 3)(turns(2)));
}

/// Returns the numbers from 0 to 9 in batches of 4.
data::dataset ten_numbers() {
  return data::dataset{10, 1,
                       [](std::uint64_t i) {
                         return batch{tensor::full({1}, double(i)),
                                      tensor::zeros({}, dtype::int32)};
                       }}
    .batch(4);
}

TEST(MultiWorker, GlobalRowsCountAllWorkers) {
  const auto losses = [](const strategy& strategy) {
    std::vector<float> out;
    for (const auto& step : strategy.distribute(ten_numbers())) {
      const auto loss = strategy.run(
        [](const batch& mine) {
          float total = 0;
          for (const auto x : mine.inputs.data<float>())
            total += x;
          return tensor::full({}, total / float(mine.global_rows));
        },
        step);
      out.push_back(strategy.reduce(sum, loss).template item<float>());
    }
    return out;
  };
  const std::vector<float> means{1.5, 5.5, 8.5};
  EXPECT_EQ(losses(turns(2)), means);
  EXPECT_EQ(expect_equal_on_all_workers(2, 1, losses), means);
  EXPECT_EQ(expect_equal_on_all_workers(2, 2, losses), means);
}

} // namespace

#include "clusters.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

// Workers that give other data, or another model, than worker 0: all workers
// get one sentence that names the difference. The mistakes S0 to S9 are
// listed in tests/training/loop/fit/new_user_results_test.cpp.

namespace {

using namespace troupe;
using namespace troupe::test;

using program = std::function<void(const strategy&, std::uint32_t)>;

/// Runs a program on two workers. @returns the error, which both get.
std::string common_error(const program& fn) {
  const auto thrown =
    run_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      fn(on, w);
    });
  EXPECT_EQ(exception_text(thrown[1]), exception_text(thrown[0]));
  return exception_text(thrown[0]);
}

void expect_error(const program& fn, const std::string& begin,
                  const std::string& end) {
  const auto text = common_error(fn);
  EXPECT_TRUE(text.starts_with(begin)) << text;
  EXPECT_TRUE(text.ends_with(end)) << text;
}

/// The half of the digits that worker `w` would take for itself.
data::dataset half(std::uint32_t w) {
  return digits_200().skip(100 * std::uint64_t{w}).take(100).batch(10);
}

/// Rows in batches of 8: five of them for 33 and for 35 rows.
data::dataset rows(std::uint64_t count) {
  return digits_200().take(count).batch(8);
}

/// Batches of which only those after the first one differ between workers.
data::dataset other_after_the_first(std::uint32_t w) {
  return data::dataset{40, 10,
                       [w](std::uint64_t i) {
                         return batch{
                           tensor::full({28, 28, 1}, w == 1 && i >= 8 ? 2 : 1),
                           tensor::full({}, double(i % 10), dtype::int32)};
                       }}
    .batch(8);
}

/// Applies a gradient in each iteration of a loop over the dataset.
void plain_loop(const strategy& on, const data::dataset& batches) {
  auto it = small_model();
  const auto before = it.weights_sha256();
  try {
    for (const auto& step : on.distribute(batches))
      on.run(
        [&](replica_context& self, const batch& mine) {
          tape t;
          const auto loss = models::cross_entropy(it(mine.inputs), mine.labels)
                            / mine.global_rows;
          it.optimizer().apply(
            self.all_reduce(sum, t.gradient(loss, it.variables())),
            it.variables());
        },
        step);
  } catch (const std::invalid_argument&) {
    EXPECT_EQ(it.weights_sha256(), before); // the step was undone
    throw;
  }
}

const std::string same_for_distribute =
  "; all workers must give distribute the same data";
const std::string same_for_fit =
  "; all workers must train the same model on the same data with the same "
  "options";
const std::string same_for_evaluate =
  "; all workers must evaluate the same model on the same data with the same "
  "metrics";

TEST(NewUserWorkers, S1EachWorkerDistributesItsOwnHalf) {
  const program plain = [](const strategy& on, std::uint32_t w) {
    plain_loop(on, half(w));
  };
  expect_error(plain, "worker 1 has \"hash of the first batch: 10 examples, ",
               same_for_distribute);
  const program loop = [](const strategy& on, std::uint32_t w) {
    for (auto& step : on.loop("train", on.distribute(half(w))))
      on.run([](const batch&) {}, step.values);
  };
  expect_error(loop, "worker 1 has \"hash of the first batch: 10 examples, ",
               "; all workers must begin the same loop over the same data");
}

/// Only worker 1 has data that the call refuses.
TEST(NewUserWorkers, AllAreToldWhyOneCannotBegin) {
  const auto expect = [](const std::string& call, const program& fn) {
    const auto thrown =
      run_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
        const auto scope = on.scope();
        fn(on, w);
      });
    const auto own = exception_text(thrown[1]);
    EXPECT_NE(own.find("yields single examples"), own.npos) << own;
    EXPECT_EQ(exception_text(thrown[0]),
              "worker 1 cannot begin " + call + ": " + own);
  };
  const auto data = [](std::uint32_t w) {
    return w == 1 ? digits_200() : digits_200().batch(10);
  };
  expect("fit",
         [&](const strategy&, std::uint32_t w) { small_model().fit(data(w)); });
  expect("fit", [&](const strategy&, std::uint32_t w) {
    small_model().fit(data(0), {.validation = data(w)});
  });
  expect("evaluate", [&](const strategy&, std::uint32_t w) {
    small_model().evaluate(data(w));
  });
}

TEST(NewUserWorkers, S1LoopsOverOtherNumbersOfRowsAreNamed) {
  const program plain = [](const strategy& on, std::uint32_t w) {
    plain_loop(on, rows(33 + 2 * w));
  };
  EXPECT_EQ(common_error(plain),
            "worker 1 has \"examples per epoch: 35\", but worker 0 has "
            "\"examples per epoch: 33\""
              + same_for_distribute);
}

TEST(NewUserWorkers, S1ASecondDatasetIsComparedToo) {
  const program plain = [](const strategy& on, std::uint32_t w) {
    plain_loop(on, rows(40));
    plain_loop(on, rows(40));
    plain_loop(on, half(w));
  };
  expect_error(plain,
               "worker 1 has \"hash of the first batch: ", same_for_distribute);
}

TEST(NewUserWorkers, AChiefAndItsWorkerAreNamedByTheirTasks) {
  const auto error_with_chief = [](const program& fn) {
    const auto thrown = run_on_cluster(
      2, {},
      [&](const strategy& on, std::uint32_t w) {
        const auto scope = on.scope();
        fn(on, w);
      },
      {}, true);
    EXPECT_EQ(exception_text(thrown[1]), exception_text(thrown[0]));
    return exception_text(thrown[0]);
  };
  const std::string differ =
    "worker 0 has \"examples per epoch: 35\", but chief "
    "0 has \"examples per epoch: 33\"";
  EXPECT_EQ(error_with_chief([](const strategy& on, std::uint32_t w) {
              plain_loop(on, rows(33 + 2 * w));
            }),
            differ + same_for_distribute);
  EXPECT_EQ(error_with_chief([](const strategy&, std::uint32_t w) {
              small_model().fit(rows(33 + 2 * w));
            }),
            differ + same_for_fit);
  EXPECT_EQ(
    error_with_chief([](const strategy& on, std::uint32_t w) {
      for (auto& step : on.loop("train", on.distribute(rows(33 + 2 * w))))
        on.run([](const batch&) {}, step.values);
    }),
    differ + "; all workers must begin the same loop over the same data");
}

TEST(NewUserWorkers, S2EvaluateComparesTheData) {
  const program halves = [](const strategy&, std::uint32_t w) {
    small_model().evaluate(half(w));
  };
  expect_error(halves,
               "worker 1 has \"hash of the first batch: ", same_for_evaluate);
  const program counts = [](const strategy&, std::uint32_t w) {
    small_model().evaluate(rows(33 + 2 * w));
  };
  EXPECT_EQ(common_error(counts),
            "worker 1 has \"examples per epoch: 35\", but worker 0 has "
            "\"examples per epoch: 33\""
              + same_for_evaluate);
}

TEST(NewUserWorkers, FitNamesAnotherNumberOfRowsInAsManyBatches) {
  for (const auto reaction : {on_deviation::stop, on_deviation::heal})
    EXPECT_EQ(common_error([&](const strategy&, std::uint32_t w) {
                small_model().fit(rows(33 + 2 * w), {.on_deviation = reaction});
              }),
              "worker 1 has \"examples per epoch: 35\", but worker 0 has "
              "\"examples per epoch: 33\""
                + same_for_fit);
}

TEST(NewUserWorkers, FitComparesBatchesAfterTheFirstOne) {
  const program fit = [](const strategy&, std::uint32_t w) {
    small_model().fit(other_after_the_first(w));
  };
  expect_error(fit, "worker 1 has \"hash of the last batch: 8 examples, ",
               same_for_fit);
}

TEST(NewUserWorkers, FitComparesTheValidationData) {
  const program fit = [](const strategy&, std::uint32_t w) {
    small_model().fit(rows(40), {.validation = half(w)});
  };
  expect_error(
    fit, "worker 1 has \"hash of the first batch of the validation data: ",
    same_for_fit);
}

TEST(NewUserWorkers, AnotherModelIsNamedByItsLayer) {
  const auto net = [](std::uint32_t w, activation applied) {
    return models::model_description{
      .name = "net",
      .input = {28, 28, 1},
      .layers =
        models::stack(models::flatten{}, models::dense{int(4 + w), applied},
                      models::dense{10})};
  };
  const program units = [&](const strategy&, std::uint32_t w) {
    model{net(w, activation::relu), sgd{}}.fit(rows(40));
  };
  expect_error(units, "worker 1 has \"layer 2: {\"type\":\"dense\",\"units\":5",
               same_for_fit);
  const auto activation_of = [](std::uint32_t w) {
    return w == 0 ? activation::relu : activation::none;
  };
  const program activations = [&](const strategy&, std::uint32_t w) {
    model{net(0, activation_of(w)), sgd{}}.fit(rows(40));
  };
  expect_error(activations,
               "worker 1 has \"layer 2: {\"type\":\"dense\",\"units\":4",
               same_for_fit);
  const program evaluate = [&](const strategy&, std::uint32_t w) {
    model{net(0, activation_of(w)), sgd{}}.evaluate(rows(40));
  };
  expect_error(evaluate, "worker 1 has \"layer 2: ", same_for_evaluate);
  const program loop = [&](const strategy& on, std::uint32_t w) {
    const model it{net(0, activation_of(w)), sgd{}};
    for (auto& step : on.loop("train", on.distribute(rows(40))))
      on.run([](const batch&) {}, step.values);
  };
  expect_error(loop, "worker 1 has \"layer 2: ",
               "; all workers must begin the same loop over the same data");
}

TEST(NewUserWorkers, NumbersAreComparedInFull) {
  const program rate = [](const strategy&, std::uint32_t w) {
    model{small_model().description(),
          sgd{.learning_rate = w == 0 ? 0.001F : 0.0010000005F}}
      .fit(rows(40));
  };
  expect_error(rate,
               "worker 1 has \"learning rate of the optimizer: 0.0010000005\"",
               same_for_fit);
  const program delta = [](const strategy&, std::uint32_t w) {
    small_model().fit(rows(40), {.early_stopping = early_stopping{
                                   .monitor = monitored_metric::loss,
                                   .min_delta = w == 0 ? 0.25 : 0.250000001}});
  };
  expect_error(delta,
               "worker 1 has \"early stopping's min_delta: 0.250000001\", but "
               "worker 0 has \"early stopping's min_delta: 0.25\"",
               same_for_fit);
  const program weights = [](const strategy&, std::uint32_t w) {
    std::vector<float> all(10, 1.0F);
    all[3] = w == 0 ? 1.0F : 1.0000001F;
    small_model().fit(rows(40), {.class_weights = all});
  };
  expect_error(weights, "worker 1 has \"class weight: 1.0000001\"",
               same_for_fit);
  const program loop = [](const strategy& on, std::uint32_t w) {
    const model it{small_model().description(),
                   adam{.epsilon = w == 0 ? 1e-8F : 1e-7F}};
    for (auto& step : on.loop("train", on.distribute(rows(40))))
      on.run([](const batch&) {}, step.values);
  };
  expect_error(loop,
               "worker 1 has \"optimizer: adam beta1=0.9 beta2=0.999 "
               "epsilon=1e-07\", but worker 0 has ",
               "; all workers must begin the same loop over the same data");
}

class OtherModels : public scratch_test {};

TEST_F(OtherModels, SaveNamesTheVariableThatDiffers) {
  EXPECT_EQ(
    common_error([&](const strategy&, std::uint32_t w) {
      const model it{
        {.name = "net",
         .input = {28, 28, 1},
         .layers = models::stack(models::flatten{}, models::dense{int(4 + w)},
                                 models::dense{10})},
        sgd{}};
      it.save(folder / "none");
    }),
    "worker 1 has the variable \"dense_1/kernel\" [784, 5] where worker 0 has "
    "the variable \"dense_1/kernel\" [784, 4]; all workers must construct the "
    "same model and make the same calls with it");
  EXPECT_EQ(files(), 0u);
}

} // namespace

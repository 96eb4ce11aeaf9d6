#include "troupe/tests/support/scratch.hpp"
#include "troupe/troupe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <sstream>

// The code of docs/training.md about the options of `fit`, and about clipping.

namespace {

using namespace troupe;

/// Collects what is written to std::cout during its lifetime.
class captured_output {
public:
  captured_output() : before_{std::cout.rdbuf(text_.rdbuf())} {}
  ~captured_output() { std::cout.rdbuf(before_); }
  std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
  std::streambuf* before_;
};

class FitPage : public scratch_test {};

TEST_F(FitPage, FitsWithManyOptions) {
  const auto file = folder / "digits.troupe";
  const captured_output output;
  // [doc:begin everything]
  const auto [train, test] = data::digits({.examples = 500}).split(0.8);
  const auto batches = train.shuffle().batch(32);
  model model{models::mlp(), adamw{.weight_decay = 0.01f}, {.seed = 7}};

  // The mean of the largest probability, as two sums over the examples.
  const models::metric confidence{
    .name = "confidence",
    .sums = 2,
    .add = [](const tensor& outputs, const tensor&, std::span<double> sums) {
      const auto likely = softmax(outputs);
      for (std::int64_t row = 0; row < likely.dims()[0]; ++row)
        sums[0] += std::ranges::max(likely.slice(row, row + 1).data<float>());
      sums[1] += double(likely.dims()[0]); // the value is sums[0] / sums[1]
    }};
  const callback print{
    .on_epoch_end =
      [](const epoch_record& x) {
        std::cout << x.epoch << ": loss " << x.loss << ", rate "
                  << x.learning_rate << ", " << x.examples_per_second() << '\n';
        for (const auto& [name, value] : x.validation_metrics)
          std::cout << "validation " << name << ' ' << value << '\n';
      },
    .on_step = [](const step_record& x) { // must not access the model
      if (x.step % 10 == 0 && !x.repeated && !x.skipped)
        std::cout << "step " << x.step << ": loss " << x.loss << '\n';
    }};
  const auto history = model.fit(
    batches, {.epochs = 3,
              .validation = test.batch(256),
              .callbacks = {print},
              .early_stopping =
                early_stopping{.monitor = monitored_metric::validation_accuracy,
                               .patience = 2,
                               .min_delta = 0.001},
              .metrics = {{models::accuracy_metric(), confidence}},
              .schedule = cosine_schedule{.learning_rate = 2e-3f,
                                          .final_rate = 1e-5f,
                                          .steps = 3 * batches.size().value(),
                                          .warm_up = 5},
              .progress = progress_style::none, // or bar, lines, automatic
              .on_nan = on_nan::skip,
              .save = periodic_save{.file = file, .steps = 10}});
  std::cout << "best epoch " << history.best_epoch << " of "
            << history.epochs.size() << '\n';

  const evaluation found = model.evaluate(test.batch(256));
  std::cout << found.examples << " examples, accuracy " << found.accuracy
            << ", SHA-256 " << model.weights_sha256() << '\n';
  // [doc:end]
  EXPECT_EQ(found.examples, 100u);
  const auto text = output.text();
  EXPECT_NE(text.find("validation confidence 0."), text.npos) << text;
  EXPECT_NE(text.find("step 20: loss "), text.npos) << text;
  EXPECT_TRUE(model::load(file).interrupted());
}

TEST_F(FitPage, ClipsTheGradientsOfALoop) {
  const auto strategy = one_device_strategy{"cpu:0", {.replicas = 2}};
  const auto scope = strategy.scope();
  model model{models::mlp(), sgd{.learning_rate = 0.1f}};
  const auto batches =
    strategy.distribute(data::digits({.examples = 64}).batch(32));
  std::vector<double> norms;
  // [doc:begin clipping]
  for (const auto& batch : batches)
    strategy.run(
      [&](replica_context& replica, const troupe::batch& b) {
        tape tape;
        const auto loss =
          cross_entropy(model(b.inputs, {.training = true}), b.labels)
          / b.global_rows;
        auto gradients = replica.all_reduce(
          sum, tape.sparse_gradients(loss, model.variables()));
        // Scales the list in place, and returns the norm before.
        const auto norm = clip_by_global_norm(gradients, 1.0);
        model.optimizer().apply(gradients, model.variables());
        if (replica.replica_id() == 0)
          norms.push_back(norm);
      },
      batch);
  // [doc:end]
  EXPECT_EQ(norms.size(), 2u);
  EXPECT_GT(norms[0], 0);
}

} // namespace

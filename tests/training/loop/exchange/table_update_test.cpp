#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/clicks.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/support/small_clicks.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/exchange/table_update.hpp"
#include "troupe/training/strategies/replica/reduce_op.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

// Fits of models with tables.

namespace {

using namespace troupe;

/// A category_embedding layer whose table is a parameter like any other, so
/// `fit` computes its whole gradient and updates all rows.
class dense_embedding : public models::category_embedding_layer {
public:
  dense_embedding() = default;
  dense_embedding(std::int64_t rows, std::int64_t units)
    : category_embedding_layer{{.rows = rows, .units = units}} {}

  std::string_view type() const override { return "dense_embedding"; }

  shape build(const shape& input, models::builder& b) const override {
    b.parameter("embeddings", {b.categories() * settings.rows, settings.units},
                settings.embeddings_initializer);
    return {b.categories() * settings.units + input[0]};
  }
};

const bool registered = [] {
  models::register_layer<dense_embedding>();
  return true;
}();

using test::text_of;
using test::uneven_clicks;

constexpr auto rows = test::click_rows, categories = test::click_categories,
               numbers = test::click_numbers;
/// So many elements that the rows of a step are several slices of an update,
/// and the sum of a row has several blocks.
constexpr std::int64_t units = 1'040;

template <class Embedding>
models::model_description small_clicks() {
  return test::click_model<Embedding>(units);
}

const model_options on_clicks{.loss = "binary_cross_entropy"};

/// Returns all parameters after a fit of two epochs.
template <class Embedding>
tensor fitted(const strategy& on, const update_rule& rule) {
  const auto scope = on.scope();
  model it{small_clicks<Embedding>(), rule, on_clicks};
  it.fit(uneven_clicks(), {.epochs = 2});
  tensors all;
  for (const auto& x : it.variables())
    all.push_back(
      x.value().detach().clone().reshaped({std::int64_t(x.dims().elements())}));
  return concatenate(all, 0);
}

/// Without slots, an update by a gradient of zero changes no bit. Products have
/// other bits with another number of threads.
TEST(TableUpdate, WithSgdHasTheBitsOfTheDenseForm) {
  ASSERT_TRUE(registered);
  const sgd rule{.learning_rate = 0.5f};
  runtime actors;
  for (const std::uint32_t replicas : {1, 2, 3, 5})
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, "
                   + std::to_string(threads) + " threads");
      const one_device_strategy in_turn{
        "cpu:0", {.replicas = replicas, .threads = threads}};
      const auto dense = fitted<dense_embedding>(in_turn, rule);
      EXPECT_TRUE(
        same_bits(fitted<models::category_embedding>(in_turn, rule), dense));
      std::vector<std::string> devices;
      for (std::uint32_t i = 0; i < replicas; ++i)
        devices.push_back("cpu:" + std::to_string(i));
      const mirrored_strategy at_once{actors, devices, {.threads = threads}};
      EXPECT_TRUE(
        same_bits(fitted<models::category_embedding>(at_once, rule), dense));
    }
}

TEST(TableUpdate, OfAnyRuleHasTheBitsOfReplicasThatTakeTurns) {
  runtime actors;
  for (const update_rule& rule :
       {update_rule{adam{}}, update_rule{adagrad{}}, update_rule{ftrl{}},
        update_rule{sgd{.momentum = 0.9f}}})
    EXPECT_TRUE(same_bits(
      fitted<models::category_embedding>(turns(3), rule),
      fitted<models::category_embedding>(
        mirrored_strategy{actors, {"cpu:0", "cpu:1", "cpu:2"}}, rule)));
}

/// One step of `fit` and one of a loop with `optimizer::apply`, whose sparse
/// form has tests by the definition. The number of examples is a power of two,
/// so that the mean of the gradients has no rounding.
TEST(TableUpdate, HasTheBitsOfALoopWithSparseGradients) {
  const auto all = data::clicks({.examples = 96,
                                 .numbers = numbers,
                                 .categories = categories,
                                 .rows = rows});
  for (const update_rule& rule :
       {update_rule{adam{}}, update_rule{adagrad{}}, update_rule{ftrl{}},
        update_rule{adamw{}}, update_rule{sgd{.momentum = 0.9f}}}) {
    model by_fit{small_clicks<models::category_embedding>(), rule, on_clicks};
    by_fit.fit(all.batch(32));
    model by_loop{small_clicks<models::category_embedding>(), rule, on_clicks};
    for (const auto& x : all.batch(32).iterate()) {
      tape t;
      const auto loss = reduce_mean(models::binary_cross_entropy(
        by_loop({x.inputs, x["categories"]}, {.training = true}), x.labels));
      const auto gradients = t.sparse_gradients(loss, by_loop.variables());
      EXPECT_TRUE(gradients[0].is_sparse());
      default_strategy{}.run([&](replica_context&) {
        by_loop.optimizer().apply(gradients, by_loop.variables());
      });
    }
    EXPECT_EQ(by_fit.weights_sha256(), by_loop.weights_sha256()) << rule.name();
  }
}

/// Two batches that read other categories.
data::dataset two_batches() {
  troupe::batch all{tensor::full({4, numbers}, 1),
                    tensor::of<float>({4, 1}, {1, 0, 1, 0})};
  tensor of_categories{{4, categories}, dtype::int32};
  for (std::size_t i = 0; i < of_categories.size(); ++i)
    of_categories.mutable_data<std::int32_t>()[i] = i < 2 * categories ? 1 : 2;
  all.others.push_back({"categories", of_categories});
  return data::dataset::of(all).batch(2);
}

/// Elements of row `row` of category k.
std::vector<float> row_of(const model& it, std::size_t k, std::size_t row) {
  const auto table = it.variables()[0].value();
  const auto width = std::size_t(table.dims()[1]);
  const auto part =
    table.data<float>().subspan((k * std::size_t(rows) + row) * width, width);
  return {part.begin(), part.end()};
}

/// With Adam, the slots of a row that was read once decay in the steps that do
/// not read it. A sparse gradient leaves them, and the row, as they are.
TEST(TableUpdate, RowsThatAStepDoesNotReadKeepTheirBits) {
  model sparse{small_clicks<models::category_embedding>(), adam{}, on_clicks};
  model dense{small_clicks<dense_embedding>(), adam{}, on_clicks};
  const auto at_start = row_of(sparse, 2, 7);
  for (auto* it : {&sparse, &dense}) {
    it->fit(two_batches().take(1));
    ASSERT_EQ(row_of(*it, 2, 1), row_of(sparse, 2, 1));
  }
  const auto after_first = row_of(sparse, 2, 1);
  for (auto* it : {&sparse, &dense})
    it->fit(two_batches().skip(1));
  EXPECT_EQ(row_of(sparse, 2, 1), after_first);
  EXPECT_NE(row_of(dense, 2, 1), after_first);
  EXPECT_EQ(row_of(sparse, 2, 2), row_of(dense, 2, 2));
  EXPECT_EQ(row_of(sparse, 2, 7), at_start);
}

TEST(TableUpdate, NoDenseGradientIsWritten) {
  for (const std::uint32_t replicas : {1, 3}) {
    const auto on = turns(replicas);
    const auto scope = on.scope();
    model it{small_clicks<models::category_embedding>(), adam{}, on_clicks};
    auto gradient = it.variables()[0].gradient().mutable_data<float>();
    std::ranges::fill(gradient, 9.0f);
    it.fit(uneven_clicks());
    EXPECT_EQ(std::ranges::count(gradient, 9.0f), std::ssize(gradient));
  }
}

TEST(TableUpdate, AFrozenTableKeepsItsBits) {
  model it{small_clicks<models::category_embedding>(), adam{}, on_clicks};
  const auto value_of = [&](std::size_t i) {
    return it.variables()[i].value().detach().clone();
  };
  const auto table = value_of(0), kernel = value_of(1);
  const auto is_table = [&](const variable& x) {
    return x.id() == it.variables()[0].id();
  };
  it.fit(uneven_clicks(),
         {.trainable = [&](const variable& x) { return !is_table(x); }});
  EXPECT_TRUE(same_bits(value_of(0), table));
  EXPECT_FALSE(same_bits(value_of(1), kernel));
  const auto trained = value_of(1);
  it.fit(uneven_clicks(), {.trainable = is_table});
  EXPECT_FALSE(same_bits(value_of(0), table));
  EXPECT_TRUE(same_bits(value_of(1), trained));
}

/// The sum of outputs * labels, so that the gradient of a row is the sum of the
/// labels of the examples that read it.
const bool has_loss = [] {
  models::register_loss(
    {.name = "labels_times_outputs",
     .targets = models::target_kind::values,
     .compute = [](const tensor& outputs, const tensor& labels) {
       return reduce_sum(outputs * labels, {1});
     }});
  return true;
}();

/// Makes a step of two replicas with one example each. Each reads a row of a
/// table of four rows, and has a gradient of it.
/// @returns the four rows, or nothing if the update was skipped.
std::vector<float> step_of(const std::array<std::int32_t, 2>& read,
                           const std::array<float, 2>& gradients) {
  EXPECT_TRUE(has_loss);
  const auto on = turns(2);
  const auto scope = on.scope();
  models::category_embedding layer{4, 1};
  layer.embeddings_initializer = initializer{"zeros"};
  model it{{.name = "rows",
            .input = {1},
            .layers = models::stack(layer),
            .categories = 1},
           sgd{.learning_rate = 0x1p-126f},
           {.loss = "labels_times_outputs"}};
  troupe::batch all{
    tensor::zeros({2, 1}),
    tensor::of<float>({2, 2}, {gradients[0], 0, gradients[1], 0})};
  all.others.push_back({"categories", tensor::of<std::int32_t>({2, 1}, read)});
  bool is_skipped = false;
  it.fit(
    data::dataset::of(all).batch(2),
    {.callbacks = {{.on_step =
                      [&](const step_record& x) { is_skipped = x.skipped; }}},
     .on_nan = on_nan::skip});
  const auto table = it.variables()[0].value().data<float>();
  if (is_skipped) {
    EXPECT_EQ(std::ranges::count(table, 0.0f), 4);
    return {};
  }
  return {table.begin(), table.end()};
}

/// Elements so large that only their sum says whether it is finite.
TEST(TableUpdate, SkipsAStepIfTheSumOfARowIsNotFinite) {
  constexpr auto large = 0x1p127f,
                 infinity = std::numeric_limits<float>::infinity();
  using list = std::vector<float>;
  EXPECT_EQ(step_of({1, 3}, {2, 4}), (list{0, -0x1p-126f, 0, -0x1p-125f}));
  EXPECT_EQ(step_of({1, 3}, {large, -large}), (list{0, -1, 0, 1}));
  EXPECT_EQ(step_of({2, 2}, {large, -large / 2}), (list{0, 0, -0.5f, 0}));
  EXPECT_EQ(step_of({2, 2}, {large, large}), list{});
  EXPECT_EQ(step_of({0, 1}, {2, infinity}), list{});
}

TEST(TableUpdate, IsRejectedInAJobOfSeveralProcesses) {
  const auto thrown =
    test::run_on_workers(2, 1, [](const strategy& on, std::uint32_t) {
      const auto scope = on.scope();
      model it{small_clicks<models::category_embedding>(), adam{}, on_clicks};
      it.fit(uneven_clicks());
    });
  for (const auto& x : thrown)
    EXPECT_EQ(test::exception_text(x),
              "the model \"small\" has the table "
              "\"category_embedding_1/embeddings\", of which fit updates the "
              "rows that occur in a step, but not in a job of several "
              "processes; train it in one process, with any number of "
              "replicas");
}

TEST(TableUpdate, DataWithoutCategoriesIsRejected) {
  model it{small_clicks<models::category_embedding>(), adam{}, on_clicks};
  const auto x = uneven_clicks().iterate().next();
  const data::dataset bare{x->inputs, x->labels};
  EXPECT_EQ(text_of([&] { it.fit(bare.batch(10)); }),
            "the model \"small\" takes categories [10, 4], int32 or int64, but "
            "these examples have none; give the batch a tensor "
            "\"categories\"");
  EXPECT_NE(text_of([&] { it.predict(x->inputs); }).find("have none"),
            std::string::npos);
}

class ClickModel : public scratch_test {};

TEST_F(ClickModel, PredictsAndIsSavedWithItsCategories) {
  model it{small_clicks<models::category_embedding>(), adagrad{}, on_clicks};
  it.fit(uneven_clicks(), {.epochs = 2});
  const auto all = uneven_clicks();
  const auto scores = it.predict(all);
  EXPECT_EQ(scores.dims(), (shape{203, 1}));
  const auto x = all.iterate().next();
  const models::model_inputs first{x->inputs, (*x)["categories"]};
  EXPECT_TRUE(same_bits(it.predict(first), scores.slice(0, x->rows())));
  it.save(folder / "m.troupe");
  auto again = model::load(folder / "m.troupe");
  EXPECT_EQ(again.description().categories, categories);
  EXPECT_TRUE(same_bits(again.predict(all), scores));
  it.fit(all);
  again.fit(all);
  EXPECT_EQ(it.weights_sha256(), again.weights_sha256());
}

/// The planted scores reach the largest area that is possible in expectation.
TEST_F(ClickModel, ApproachesTheBestAreaOfGeneratedClicks) {
  constexpr std::uint64_t examples = 24'000, training = 20'000;
  const data::clicks_options options{
    .examples = examples, .categories = 8, .rows = 1'000};
  const auto all = data::clicks(options);
  model it{{.name = "clicks",
            .input = {13},
            .layers = models::stack(models::category_embedding{1'000, 4},
                                    models::dense{16, activation::relu},
                                    models::dense{1}),
            .categories = 8},
           adagrad{.learning_rate = 0.1f},
           on_clicks};
  const auto area = [&] {
    return it
      .evaluate(all.skip(training).batch(500),
                {.metrics = {{models::auc_metric({.from_logits = true})}}})
      .metrics.at(0)
      .value;
  };
  const auto before = area();
  it.fit(all.take(training).shuffle().batch(100), {.epochs = 8});
  const auto after = area(), best = data::best_clicks_auc(options, training);
  EXPECT_NEAR(before, 0.5, 0.1);
  EXPECT_GT(after, best - 0.03);
  // The labels of 4,000 examples deviate from their expectation.
  EXPECT_LT(after, best + 0.02);
}

} // namespace

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tests/support/collected_warnings.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/small_clicks.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/staleness_warning.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <span>
#include <string>
#include <vector>

// What a fit on servers checks and says when it has trained: what `model::fit`
// does.

namespace {

using namespace troupe;
using test::collected_warnings, test::text_of;

models::model_description one_unit() {
  return {
    .name = "line", .input = {2}, .layers = models::stack(models::dense{1})};
}

const model_options squares{.loss = "mean_squared_error"};

/// Two batches. @param input of all examples.
data::dataset rows_of(float input = 1) {
  return data::dataset{tensor::full({4, 2}, input), tensor::full({4, 1}, 9)}
    .batch(2);
}

/// What a call says: its error, and the warnings.
std::string said_by(const std::function<void()>& call) {
  const collected_warnings warnings;
  const auto error = text_of(call);
  return warnings.text + error;
}

/// Calls `fn` with a model on servers and a coordinator.
template <class F>
void with_servers(const models::model_description& net, const update_rule& rule,
                  const model_options& options, const F& fn) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  cluster_coordinator coordinator{on};
  server_model trained{on, "net", net, rule, options};
  fn(on, trained, coordinator);
}

TEST(ServerFitEnd, WeightsThatAreNotFiniteAreAnError) {
  const adam rule{.learning_rate = 3e38F};
  model alone{one_unit(), rule, squares};
  const auto batches = rows_of().take(1);
  const auto expected = text_of([&] { alone.fit(batches); });
  EXPECT_EQ(expected,
            "the weights of \"dense_1/kernel\" are not finite after 1 step "
            "(try a smaller learning rate)");
  with_servers(
    one_unit(), rule, squares, [&](auto&, auto& trained, auto& coordinator) {
      EXPECT_EQ(text_of([&] { trained.fit(coordinator, batches); }), expected);
      // The position is that of the end, as after a fit of `model`.
      EXPECT_EQ(trained.steps(), 1u);
    });
}

TEST(ServerFitEnd, SoAreThoseOfATable) {
  // Row 50 is in no batch, so no loss contains it.
  const models::model_description net{
    .name = "small",
    .input = {test::click_numbers},
    .layers = models::stack(models::category_embedding{test::click_rows + 1, 5},
                            models::dense{1}),
    .categories = test::click_categories};
  const auto batches = test::uneven_clicks();
  with_servers(
    net, sgd{}, {.loss = "binary_cross_entropy"},
    [&](auto& on, auto& trained, auto& coordinator) {
      trained.fit(coordinator, batches);
      model copy{net, sgd{}, {.loss = "binary_cross_entropy"}};
      const auto name = copy.variables()[0].name();
      on.variable("net/" + name)
        .scatter_update(
          tensor::of<std::int64_t>({1}, {test::click_rows}),
          tensor::full({1, 5}, std::numeric_limits<float>::infinity()));
      EXPECT_EQ(text_of([&] { trained.fit(coordinator, batches); }),
                "the weights of \"" + name
                  + "\" are not finite after 10 steps (try a smaller learning "
                    "rate)");
    });
}

TEST(ServerFitEnd, ALearningRateOf0IsWarnedAbout) {
  const auto zero = [](auto& options) {
    options.epochs = 2;
    options.schedule = cosine_schedule{.steps = 4};
  };
  fit_options of_model;
  zero(of_model);
  model alone{one_unit(), sgd{.learning_rate = 1e-3F}, squares};
  alone.fit(rows_of(), of_model);
  const auto expected = said_by([&] { alone.fit(rows_of(), of_model); });
  EXPECT_NE(expected.find("the learning rate was 0 in all 2 steps"),
            expected.npos);
  server_fit_options of_servers;
  zero(of_servers);
  with_servers(one_unit(), sgd{.learning_rate = 1e-3F}, squares,
               [&](auto&, auto& trained, auto& coordinator) {
                 EXPECT_EQ(said_by([&] {
                             trained.fit(coordinator, rows_of(), of_servers);
                           }),
                           "no error");
                 EXPECT_EQ(said_by([&] {
                             trained.fit(coordinator, rows_of(), of_servers);
                           }),
                           expected);
               });
}

TEST(ServerFitEnd, AnEpochWithoutAnUpdateIsWarnedAbout) {
  with_servers(
    one_unit(), sgd{.learning_rate = 1e-3F}, squares,
    [](auto&, auto& trained, auto& coordinator) {
      const auto said = said_by([&] {
        trained.fit(coordinator,
                    rows_of(std::numeric_limits<float>::infinity()),
                    {.on_nan = on_nan::skip});
      });
      EXPECT_NE(said.find("no step of epoch 1 has made its update, because the "
                          "loss or a gradient of each was not finite\n"),
                said.npos)
        << said;
    });
}

/// The loss cannot fall. Batch 0, of replica 0, is held back until replica 1
/// has made a step.
TEST(ServerFitEnd, ALossThatDoesNotFallIsWarnedAboutWithTheStaleness) {
  std::promise<void> has_stepped;
  auto is_free = has_stepped.get_future().share();
  constexpr auto rows = 4 * std::int64_t{staleness_warning::steps};
  const auto batches =
    data::dataset{tensor::full({rows, 2}, 1), tensor::full({rows, 1}, 9)}.batch(
      2);
  std::atomic<bool> is_open = false;
  const models::metric holding{
    .name = "holding",
    .add = [&](const tensor&, const tensor&, std::span<double>) {
      const auto number = current_context().random.step;
      if (number == 0)
        is_free.wait_for(test::patience);
      else if (number == 3 && !is_open.exchange(true))
        has_stepped.set_value();
    }};
  const auto text_of_fit = [&](const parameter_server::consistency& kind,
                               float rate) {
    runtime actors;
    const parameter_server_strategy on{actors, {.workers = 2}};
    cluster_coordinator coordinator{on};
    server_model trained{on, "net", one_unit(), sgd{.learning_rate = rate},
                         squares};
    return said_by([&] {
      trained.fit(
        coordinator, batches,
        {.epochs = 2, .metrics = std::vector{holding}, .consistency = kind});
    });
  };
  const auto text = text_of_fit({}, 1e-9F);
  EXPECT_NE(text.find("the loss has not fallen: it was "), text.npos) << text;
  EXPECT_NE(text.find(" in the 50 steps up to step 99. Between the read of a "
                      "replica and its update, others have made "),
            text.npos);
  EXPECT_EQ(text.find("up to step 199"), text.npos) << "only once";
  EXPECT_EQ(text_of_fit({}, 0.01F), "no error") << "it falls";
  EXPECT_EQ(
    text_of_fit({parameter_server::consistency_kind::synchronous}, 1e-9F),
    "no error");
}

TEST(ServerFitEnd, AScheduleThatOverflowsIsRefusedBefore) {
  const auto overflows = [](auto& options) {
    options.epochs = 100;
    options.schedule =
      step_schedule{.learning_rate = 1e-3F, .factor = 1e3F, .every = 1};
  };
  fit_options of_model;
  overflows(of_model);
  model alone{one_unit(), sgd{}, squares};
  const auto expected = text_of([&] { alone.fit(rows_of(), of_model); });
  EXPECT_NE(expected.find("no finite learning rate at step 199"),
            expected.npos);
  server_fit_options of_servers;
  overflows(of_servers);
  with_servers(
    one_unit(), sgd{}, squares, [&](auto&, auto& trained, auto& coordinator) {
      EXPECT_EQ(
        text_of([&] { trained.fit(coordinator, rows_of(), of_servers); }),
        expected);
      EXPECT_EQ(trained.steps(), 0u);
    });
}

} // namespace

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/audit/parameter_audit.hpp"
#include "troupe/training/loop/exchange/gradient_exchange.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

namespace {

using namespace troupe;

enum class copies { one, one_for_each_replica };

/// A model with the value 0, and its exchange. With several
/// copies, the job counts as one of several processes.
class exchange_job {
public:
  exchange_job(runtime& actors, copies kind, std::uint32_t replicas,
               const fit_options& options = {})
    : strategy_{make_strategy(actors, kind, replicas)},
      model_{std::make_shared<model_state>(
        small_net(), sgd{.learning_rate = 0.5f},
        models::find_loss("softmax_cross_entropy"), 1, strategy_)},
      trained_{*model_, options},
      exchange_{
        gradient_exchange::make(*model_, rules_, trained_, 1, nullptr)} {
    for (std::uint32_t c = 0; c < model_->model_parameters.copies(); ++c)
      model_->model_parameters.values(c).set_zero();
  }

  std::uint32_t copies_of_values() const {
    return model_->model_parameters.copies();
  }
  /// Elements of a parameter in a copy.
  std::span<const float> values(std::uint32_t copy, std::size_t parameter) {
    return model_->model_parameters.values(copy).data<float>().subspan(
      model_->model_parameters.offset(parameter),
      static_cast<std::size_t>(
        model_->variables()[parameter].dims().elements()));
  }
  std::size_t parameters() const { return model_->variables().size(); }

  using per_replica_function =
    std::function<void(std::uint32_t, gradient_exchange::replica_step&)>;

  /// Makes a step on all replicas. All gradients of replica r are r + 1, the
  /// batch has 4 examples, and the sum that a replica reports is r + 1.
  /// @param change called on each replica before it contributes.
  /// @returns whether each replica found the sums finite.
  std::vector<bool> run(const per_replica_function& change =
                          [](std::uint32_t, gradient_exchange::replica_step&) {
                          }) {
    std::vector<char> finite(strategy_->replicas);
    run_request request;
    request.first_step = next_;
    request.step = [&](step_context& context) {
      const auto r = context.replica;
      gradient_exchange::replica_step step{&context, r, 4};
      context.report.reset(1);
      context.report.sums[0] = r + 1;
      auto gradient = model_->model_parameters.gradients(r);
      std::ranges::fill(gradient.mutable_data<float>(),
                        static_cast<float>(r + 1));
      change(r, step);
      if (r == without_examples) {
        exchange_->begin_without_examples(step);
      } else {
        exchange_->begin(step);
        for (const auto i : trained_.dense())
          exchange_->on_gradient(step, i);
      }
      const auto done = exchange_->update(step);
      finite[r] = done.is_finite;
      ASSERT_EQ(done.metrics.size(), strategy_->replicas);
      for (std::size_t i = 0; i < done.metrics.size(); ++i)
        EXPECT_EQ(done.metrics[i].sums[0], static_cast<double>(i + 1));
      exchange_->end(step, next_ + 1, false);
    };
    run_steps(strategy_, request);
    ++next_;
    return {finite.begin(), finite.end()};
  }

  std::span<float> gradient(std::uint32_t replica) {
    return model_->model_parameters.gradients(replica).mutable_data<float>();
  }
  std::size_t offset(std::size_t parameter) const {
    return model_->model_parameters.offset(parameter);
  }

  /// Replica that has no examples. By default there is none.
  std::uint32_t without_examples = ~0u;

private:
  static std::shared_ptr<strategy_state>
  make_strategy(runtime& actors, copies kind, std::uint32_t replicas) {
    auto out =
      make_strategy_state(make_replica_group(actors, {.replicas = replicas}),
                          "test", std::vector<device>(replicas), 1);
    if (kind == copies::one_for_each_replica) {
      out->is_one_process = false;
      out->copies = replicas;
    }
    return out;
  }

  std::shared_ptr<strategy_state> strategy_;
  std::shared_ptr<model_state> model_;
  trained_parameters trained_;
  step_rules rules_{*model_, std::nullopt};
  std::unique_ptr<gradient_exchange> exchange_;
  std::uint64_t next_ = 0;
};

class GradientExchange : public ::testing::TestWithParam<copies> {
protected:
  runtime actors;
};

void expect_values(exchange_job& it, std::size_t parameter, float expected) {
  for (std::uint32_t c = 0; c < it.copies_of_values(); ++c)
    for (const auto value : it.values(c, parameter))
      ASSERT_EQ(value, expected) << "copy " << c << ", parameter " << parameter;
}

TEST_P(GradientExchange, AppliesTheMeanOfTheSummedGradientsInEachStep) {
  for (const std::uint32_t replicas : {1, 2, 4}) {
    exchange_job it{actors, GetParam(), replicas};
    EXPECT_EQ(it.copies_of_values(), GetParam() == copies::one ? 1u : replicas);
    const auto sum = static_cast<float>(replicas * (replicas + 1) / 2);
    for (int step = 1; step <= 3; ++step) {
      EXPECT_EQ(it.run(), std::vector<bool>(replicas, true));
      for (std::size_t i = 0; i < it.parameters(); ++i)
        expect_values(it, i, -0.125f * sum * static_cast<float>(step));
    }
  }
}

TEST_P(GradientExchange, FrozenParametersKeepTheirValues) {
  fit_options options;
  options.trainable = [](const variable& x) { return x.id() % 2 == 0; };
  exchange_job it{actors, GetParam(), 2, options};
  int frozen = 0;
  it.run();
  for (std::size_t i = 0; i < it.parameters(); ++i) {
    const bool is_frozen = it.values(0, i)[0] == 0;
    frozen += is_frozen;
    expect_values(it, i, is_frozen ? 0.0f : -0.375f);
  }
  EXPECT_EQ(frozen, 2);
}

TEST_P(GradientExchange, AReplicaWithoutExamplesAddsZeros) {
  exchange_job it{actors, GetParam(), 2};
  it.without_examples = 0;
  EXPECT_EQ(it.run(), std::vector<bool>(2, true));
  for (std::size_t i = 0; i < it.parameters(); ++i)
    expect_values(it, i, -0.25f);
}

TEST_P(GradientExchange, AllReplicasSkipTheUpdateIfOneLossIsNotFinite) {
  exchange_job it{actors, GetParam(), 2};
  const auto found =
    it.run([](std::uint32_t r, auto& step) { step.is_loss_finite = r != 1; });
  EXPECT_EQ(found, std::vector<bool>(2, false));
  for (std::size_t i = 0; i < it.parameters(); ++i)
    expect_values(it, i, 0);
  EXPECT_EQ(it.run(), std::vector<bool>(2, true));
  for (std::size_t i = 0; i < it.parameters(); ++i)
    expect_values(it, i, -0.375f);
}

TEST_P(GradientExchange, AllReplicasSkipTheUpdateIfASumIsNotFinite) {
  exchange_job it{actors, GetParam(), 2};
  const auto found = it.run([&](std::uint32_t r, auto&) {
    it.gradient(r)[it.offset(1)] = std::numeric_limits<float>::max();
  });
  EXPECT_EQ(found, std::vector<bool>(2, false));
  for (std::size_t i = 0; i < it.parameters(); ++i)
    expect_values(it, i, 0);
}

TEST_P(GradientExchange, ABatchWithoutExamplesChangesNothing) {
  exchange_job it{actors, GetParam(), 2};
  EXPECT_EQ(it.run([](std::uint32_t, auto& step) { step.examples = 0; }),
            std::vector<bool>(2, true));
  for (std::size_t i = 0; i < it.parameters(); ++i)
    expect_values(it, i, 0);
}

INSTANTIATE_TEST_SUITE_P(Copies, GradientExchange,
                         ::testing::Values(copies::one,
                                           copies::one_for_each_replica),
                         [](const auto& x) {
                           return x.param == copies::one ? "Shared" : "Buckets";
                         });

} // namespace

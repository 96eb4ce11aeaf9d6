#include "losses.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <optional>
#include <span>
#include <string>

// Workers that are lost, start again and join the job while it runs.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;

/// Where the lost worker joins. The survivors wait there until it has asked.
struct join_point {
  enum class place { step, before_evaluate, in_evaluate, before_second_fit };
  place where = place::step;
  std::uint64_t step = 0; ///< Step of the first or the second fit.
};

struct case_of_join {
  std::uint32_t lost;
  /// Step of the first fit. None: it is lost in the evaluation.
  std::optional<std::uint64_t> lost_after;
  join_point join;
  bool early_stopping = false;
  std::vector<std::string> devices{"cpu:0"}; ///< Of each worker.
};

void PrintTo(const case_of_join& x, std::ostream* out) {
  using enum join_point::place;
  *out << "worker " << x.lost << " is lost "
       << (x.lost_after ? "after step " + std::to_string(*x.lost_after)
                        : "in evaluate")
       << " on " << x.devices.size() << " devices, as " << x.devices.front()
       << ", and joins ";
  constexpr const char* places[] = {"", "before evaluate", "in evaluate",
                                    "before the second fit"};
  if (x.join.where == step)
    *out << "in step " << x.join.step;
  else
    *out << places[std::size_t(x.join.where)];
}

/// Lets the lost worker start again when the survivors have come to a point,
/// and lets them wait there until a view change has begun.
class join_gate {
public:
  /// Called by a survivor.
  void wait_for_join(const strategy& on) {
    auto& peers = peers_of(on);
    std::unique_lock hold{peers.lock};
    const auto is_complete = [&] {
      return peers.view.members.size() == workers;
    };
    // Before the loss is known, the view is complete, too.
    if (peers.view.view_id == 1 || is_complete())
      return;
    have_waited = true;
    std::call_once(once_, [this] { may_join_.set_value(); });
    EXPECT_TRUE(
      peers.wait(hold, peer_table::clock::now() + patience,
                 [&] { return peers.stop.requested || is_complete(); }))
      << "no process asked to join";
  }

  /// Called by the lost worker.
  void wait_for_survivors() {
    EXPECT_EQ(reached_.wait_for(patience), std::future_status::ready);
  }

  std::atomic<bool> have_waited = false; ///< The survivors.

private:
  std::once_flag once_;
  std::promise<void> may_join_;
  std::future<void> reached_ = may_join_.get_future();
};

/// What a program with two fits and an evaluation gives.
struct program_outcome {
  history first, second;
  double loss = 0, accuracy = 0;
  std::string weights;
  membership::view view{}; ///< The last one.
};

fit_options first_fit(bool early_stopping) {
  fit_options how{.epochs = 2};
  how.validation = uneven_batches();
  if (early_stopping) // the second epoch is never the better one
    how.early_stopping = {.monitor = monitored_metric::validation_loss,
                          .patience = 5,
                          .min_delta = 100,
                          .restore_best = true};
  return how;
}

/// Calls a function for each part of a batch that this process evaluates.
models::metric call_for_each_part(const std::function<void()>& fn) {
  return {
    .name = "call",
    .sums = 1,
    .add = [fn](const tensor&, const tensor&, std::span<double>) { fn(); },
    .value = [](std::span<const double>) { return 0.0; }};
}

void run_program(model& it, program_outcome& out, fit_options how,
                 const std::function<void(join_point::place)>& between,
                 const std::function<void()>& in_evaluate) {
  const auto record = how.callbacks;
  out.first = it.fit(uneven_batches(), how);
  between(join_point::place::before_evaluate);
  const auto found = it.evaluate(
    uneven_batches(), {.metrics = {{models::accuracy_metric(),
                                    call_for_each_part(in_evaluate)}}});
  out.loss = found.loss;
  out.accuracy = found.accuracy;
  between(join_point::place::before_second_fit);
  fit_options last{.epochs = 1};
  last.callbacks = record;
  out.second = it.fit(uneven_batches(), last);
  out.weights = it.weights_sha256();
}

program_outcome undisturbed_program(bool early_stopping,
                                    std::uint32_t replicas = workers) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto it = small_model();
  program_outcome out;
  run_program(
    it, out, first_fit(early_stopping), [](join_point::place) {}, [] {});
  return out;
}

void expect_equal_epochs(const history& found, const history& expected) {
  ASSERT_EQ(found.epochs.size(), expected.epochs.size());
  for (std::size_t e = 0; e < found.epochs.size(); ++e) {
    EXPECT_EQ(found.epochs[e].examples, expected.epochs[e].examples);
    EXPECT_EQ(found.epochs[e].loss, expected.epochs[e].loss);
    EXPECT_EQ(found.epochs[e].accuracy, expected.epochs[e].accuracy);
    if (!std::isnan(expected.epochs[e].validation_loss)) {
      EXPECT_EQ(found.epochs[e].validation_loss,
                expected.epochs[e].validation_loss);
    }
  }
}

class Join : public ::testing::TestWithParam<case_of_join> {};

TEST_P(Join, GivesTheUndisturbedResultInAllProcesses) {
  const auto& drawn = GetParam();
  const auto lost = drawn.lost;
  const simulated_devices devices;
  multi_worker_options options;
  options.devices = drawn.devices;
  join_gate all;
  std::vector<program_outcome> found(workers);
  std::vector<step_list> steps(workers);
  int lives = 0; // of the lost worker
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const bool is_lost = w == lost && lives++ == 0;
    const auto scope = on.scope();
    auto it = small_model();
    auto how = first_fit(drawn.early_stopping);
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (x.repeated)
        return;
      steps[w].push_back(x.step);
      if (is_lost && x.step == drawn.lost_after)
        cut_off(on);
      if (w != lost && drawn.join.where == join_point::place::step
          && x.step >= drawn.join.step)
        all.wait_for_join(on);
    }});
    const auto between = [&](join_point::place at) {
      if (w != lost && drawn.join.where == at)
        all.wait_for_join(on);
    };
    std::atomic<int> parts = 0;
    const auto in_evaluate = [&] {
      if (++parts < 3)
        return;
      if (is_lost && !drawn.lost_after)
        cut_off(on);
      between(join_point::place::in_evaluate);
    };
    try {
      run_program(it, found[w], how, between, in_evaluate);
      found[w].view = peers_of(on).get([&] { return peers_of(on).view; });
    } catch (const job_error&) {
      if (!is_lost)
        throw;
      steps[w].clear();
      all.wait_for_survivors();
      throw start_again{options};
    }
  };
  const auto thrown = run_on_cluster(workers, options, run);
  const auto expected = undisturbed_program(
    drawn.early_stopping,
    workers * static_cast<std::uint32_t>(drawn.devices.size()));
  for (std::uint32_t w = 0; w < workers; ++w) {
    SCOPED_TRACE("worker " + std::to_string(w));
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(found[w].weights, expected.weights);
    expect_equal_epochs(found[w].first, expected.first);
    expect_equal_epochs(found[w].second, expected.second);
    EXPECT_EQ(found[w].loss, expected.loss);
    EXPECT_EQ(found[w].accuracy, expected.accuracy);
    // The callbacks of a process that joins are called from then on.
    const auto all_steps = steps_to(39);
    ASSERT_LE(steps[w].size(), all_steps.size());
    EXPECT_TRUE(
      std::ranges::equal(steps[w], std::span{all_steps}.last(steps[w].size())));
    if (w != lost) {
      EXPECT_EQ(steps[w].size(), all_steps.size());
    }
  }
  EXPECT_EQ(lives, 2);
  EXPECT_TRUE(all.have_waited);
  EXPECT_EQ(found[lost].view.view_id, 3u);
  EXPECT_EQ(found[lost].view.members.size(), workers);
}

using enum join_point::place;

INSTANTIATE_TEST_SUITE_P(
  All, Join,
  ::testing::Values(
    case_of_join{1, 3, {step, 9}}, case_of_join{2, 3, {step, 9}},
    case_of_join{0, 3, {step, 9}}, case_of_join{1, 3, {step, 17}, true},
    case_of_join{0, 5, {step, 20}}, case_of_join{2, 12, {before_evaluate}},
    case_of_join{0, 12, {before_evaluate}, true},
    case_of_join{2, 12, {in_evaluate}}, case_of_join{0, 12, {in_evaluate}},
    case_of_join{1, {}, {in_evaluate}}, case_of_join{0, {}, {in_evaluate}},
    case_of_join{2, {}, {before_second_fit}},
    case_of_join{1, 20, {before_second_fit}},
    case_of_join{0, 20, {before_second_fit}}, case_of_join{2, 5, {step, 30}},
    case_of_join{0, 5, {step, 30}, true},
    case_of_join{0, 3, {step, 9}, true, {"cuda:0"}},
    case_of_join{2, 12, {before_evaluate}, false, {"cuda:1"}},
    case_of_join{1, 3, {step, 9}, false, {"cuda:0", "cuda:1"}},
    case_of_join{0, 12, {in_evaluate}, true, {"cuda:1", "cuda:0"}}));

/// Runs two epochs on three workers. Worker 2 is lost, and starts again with
/// another program or other options. Expects that the others go on without it.
/// @returns the text of the exception of the second program.
std::string refusal_of(const std::function<void(const strategy&)>& second,
                       const multi_worker_options& second_options = {}) {
  std::promise<void> refused;
  auto is_refused = refused.get_future();
  std::vector<std::string> weights(workers);
  int lives = 0; // of worker 2
  const auto run = [&](const strategy& on, std::uint32_t w) {
    if (w == 2 && lives++ > 0)
      return second(on);
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 2};
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (w == 2 && x.step == 3)
        cut_off(on);
      if (w == 0 && x.step == 25) {
        EXPECT_EQ(is_refused.wait_for(patience), std::future_status::ready);
      }
    }});
    try {
      it.fit(uneven_batches(), how);
    } catch (const job_error&) {
      if (w == 2)
        throw start_again{second_options};
      throw;
    }
    weights[w] = it.weights_sha256();
  };
  const auto thrown = run_on_cluster(workers, {}, run, [&](std::uint32_t w) {
    if (w == 2)
      refused.set_value();
  });
  const auto on = turns(workers);
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(weights[w], weights_after_fit(on));
  }
  return exception_text(thrown[2]);
}

TEST(JoinRefused, WithAnotherSeed) {
  const auto text = refusal_of([](const strategy& on) {
    const auto scope = on.scope();
    model other{small_net(true), adam{}, {.seed = 6}};
    other.fit(uneven_batches(), {.epochs = 2});
  });
  EXPECT_NE(
    text.find("this worker, which joins the running job, has \"seed: 6\""
              ", but worker 0 has \"seed: 5\""),
    text.npos)
    << text;
}

TEST(JoinRefused, WithOtherCalls) {
  const auto text = refusal_of([](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.evaluate(uneven_batches());
  });
  EXPECT_NE(text.find("this worker, which joins the running job, has "),
            text.npos)
    << text;
}

TEST(JoinRefused, WithOtherOptions) {
  multi_worker_options options;
  options.threads = 2;
  const auto text = refusal_of([](const strategy&) {}, options);
  EXPECT_NE(text.find("a running job cannot be joined: "), text.npos) << text;
  EXPECT_NE(text.find("threads"), text.npos) << text;
}

TEST(JoinRefused, IfItReadsTheModelFirst) {
  const auto text = refusal_of([](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.weights_sha256();
  });
  EXPECT_NE(text.find("its model has no values yet"), text.npos) << text;
}

TEST(JoinRefused, IfItRunsAFunctionOutsideOfTheCallsThatARecoveryRepeats) {
  const auto text =
    refusal_of([](const strategy& on) { on.run([] { return 1; }); });
  EXPECT_NE(text.find("has not joined its job yet"), text.npos) << text;
}

/// Its state would be that of another program.
TEST(JoinRefused, ByTheCallsAfterAFunctionThatItHasRun) {
  bool has_run = false;
  const auto text = refusal_of([&has_run](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    EXPECT_THROW(on.run([] { return 1; }), job_error);
    has_run = true;
    it.fit(uneven_batches(), {.epochs = 2});
  });
  EXPECT_TRUE(has_run);
  EXPECT_NE(text.find("has not joined its job yet"), text.npos) << text;
}

} // namespace

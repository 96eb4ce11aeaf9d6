#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/tests/training/strategies/losses.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <future>

// Bits that flip in the memory of a process during a fit.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;
constexpr std::uint64_t epoch_steps = 13;

/// A bit that flips in a replica's copy of the state, in the forward pass of a
/// step.
struct flip {
  std::uint32_t replica = 0;
  std::uint64_t step = 0;
  std::optional<std::size_t> slot{}; ///< Nullopt: in the parameters.
  int bit = 22; ///< Of a float32; 22 is the highest one of the fraction.
  bool each_time = false; ///< The bit flips again when the step is repeated.
};

void PrintTo(const flip& x, std::ostream* out) {
  *out << "replica " << x.replica << " in step " << x.step;
  if (x.slot)
    *out << " in slot " << *x.slot;
}

/// Flips the bits of one process. Its metric is called in each step.
class flipper {
public:
  flipper(std::shared_ptr<model_state> model, std::vector<flip> flips)
    : model_{std::move(model)}, flips_{std::move(flips)} {}

  void on_step() {
    const auto& now = current_context().random;
    const std::lock_guard hold{lock_};
    for (auto& x : flips_)
      if (x.replica == now.replica && x.step == now.step
          && (times_ == 0 || x.each_time)) {
        flip_bit(x);
        ++times_;
      }
  }

  int times() const { return times_; }

private:
  void flip_bit(const flip& x) {
    const auto copy = model_->strategy->placement.job.index_of(x.replica);
    auto state = x.slot ? model_->slots[copy][*x.slot]
                        : model_->model_parameters.values(copy);
    // The weight of a pixel that all images have, so that its slot is not 0.
    auto read = state.to({});
    auto& element = read.mutable_data<float>()[(14 * 28 + 14) * 24 + 3];
    element = std::bit_cast<float>(std::bit_cast<std::uint32_t>(element)
                                   ^ std::uint32_t{1} << x.bit);
    if (!read.shares_storage_with(state))
      state.copy_from(read);
  }

  const std::shared_ptr<model_state> model_;
  std::vector<flip> flips_;
  std::mutex lock_;
  std::atomic<int> times_ = 0;
};

/// @param on_forward is called with the step in each forward pass.
models::metric probe(std::shared_ptr<flipper> flips,
                     std::function<void(std::uint64_t)> on_forward) {
  return {.name = "probe",
          .add = [flips, on_forward](const tensor&, const tensor&,
                                     std::span<double> sums) {
            flips->on_step();
            if (on_forward)
              on_forward(current_context().random.step);
            sums[1] += 1;
          }};
}

std::shared_ptr<model_state> audited_model(const strategy& on) {
  auto out = std::make_shared<model_state>(
    small_net(true), adam{}, models::find_loss("softmax_cross_entropy"), 5,
    on.state());
  out->net.initialize(out->model_parameters, out->seed);
  on.state()->observe(out);
  return out;
}

struct audit_outcome {
  tensor weights;
  history past;
  step_list steps;    ///< Without repeated calls of the callback.
  step_list repeated; ///< Steps whose callback was called again.
  int flips = 0;
  fit_position interrupted{};
  bool is_suspect = false; ///< As the model says after the fit.
};

fit_options audited(std::uint64_t audit_steps,
                    on_deviation reaction = on_deviation::heal) {
  fit_options how{.epochs = 2};
  how.audit_steps = audit_steps;
  how.on_deviation = reaction;
  return how;
}

void train(const strategy& on, const std::vector<flip>& flips, fit_options how,
           audit_outcome& out,
           const std::function<void(const step_record&)>& on_step = {},
           const std::function<void(std::uint64_t)>& on_forward = {}) {
  const auto scope = on.scope();
  const auto model = audited_model(on);
  const auto own = std::make_shared<flipper>(model, flips);
  how.metrics = {models::accuracy_metric(), probe(own, on_forward)};
  how.callbacks.push_back({.on_step = [&](const step_record& x) {
    (x.repeated ? out.repeated : out.steps).push_back(x.step);
    if (on_step)
      on_step(x);
  }});
  const auto finish = [&] {
    out.flips = own->times();
    out.weights = model->model_parameters.values(0).clone().to({});
    out.is_suspect = model->is_suspect;
  };
  try {
    out.past = fit(model, uneven_batches(), how);
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

audit_outcome undisturbed(std::uint32_t replicas, std::uint64_t epochs = 2) {
  audit_outcome out;
  auto how = audited(0);
  how.epochs = epochs;
  train(turns(replicas), {}, how, out);
  return out;
}

void expect_equal(const audit_outcome& found, const audit_outcome& expected) {
  EXPECT_TRUE(same_bits(found.weights, expected.weights));
  ASSERT_EQ(found.past.epochs.size(), expected.past.epochs.size());
  for (std::size_t e = 0; e < found.past.epochs.size(); ++e) {
    EXPECT_EQ(found.past.epochs[e].steps, expected.past.epochs[e].steps);
    EXPECT_EQ(found.past.epochs[e].examples, expected.past.epochs[e].examples);
    EXPECT_EQ(found.past.epochs[e].loss, expected.past.epochs[e].loss);
    EXPECT_EQ(found.past.epochs[e].accuracy, expected.past.epochs[e].accuracy);
  }
}

int flips_in(const std::vector<audit_outcome>& all) {
  int out = 0;
  for (const auto& x : all)
    out += x.flips;
  return out;
}

/// Fits on workers that are threads.
/// @returns the text of each worker's exception. Empty: none.
std::vector<std::string> fit_on(std::uint32_t workers, std::uint32_t each,
                                const std::vector<flip>& flips,
                                const fit_options& how,
                                std::vector<audit_outcome>& found,
                                const device& each_on = {}) {
  found.assign(workers, {});
  std::vector<std::string> texts;
  for (const auto& x : run_on_workers(
         workers, each,
         [&](const strategy&on, std::uint32_t w) {
           train(on, flips, how, found[w]);
         },
         each_on))
    texts.push_back(exception_text(x));
  return texts;
}

struct healing_case {
  std::uint32_t workers, each;
  std::uint64_t audit_steps;
  flip fault;
  step_list repeated; ///< Steps that are made again.
};

void PrintTo(const healing_case& x, std::ostream* out) {
  *out << x.workers << " workers of " << x.each << ", audits every "
       << x.audit_steps << " steps, ";
  PrintTo(x.fault, out);
}

class Healing : public ::testing::TestWithParam<healing_case> {};

TEST_P(Healing, EndsWithTheUndisturbedBits) {
  const auto& x = GetParam();
  std::vector<audit_outcome> found;
  const auto texts =
    fit_on(x.workers, x.each, {x.fault}, audited(x.audit_steps), found);
  EXPECT_EQ(flips_in(found), 1);
  const auto expected = undisturbed(x.workers * x.each);
  for (std::uint32_t w = 0; w < x.workers; ++w) {
    EXPECT_EQ(texts[w], "");
    expect_equal(found[w], expected);
    EXPECT_FALSE(found[w].is_suspect);
    EXPECT_EQ(found[w].steps, steps_to(2 * epoch_steps));
    EXPECT_EQ(found[w].repeated, x.repeated);
  }
}

// A flip after the last audit in an epoch is found at its end. A step that was
// not committed has had no callback, so a flip that is found before it leaves
// no repeated call.
INSTANTIATE_TEST_SUITE_P(
  All, Healing,
  ::testing::Values(
    healing_case{3, 1, 4, {1, 5}, {4, 5, 6, 7}},
    healing_case{3, 1, 4, {0, 5}, {4, 5, 6, 7}},
    healing_case{3, 1, 4, {2, 8}, {4, 5, 6, 7}},
    healing_case{3, 1, 4, {2, 9, 0}, {8, 9, 10, 11}},
    healing_case{3, 1, 4, {0, 9, 1}, {8, 9, 10, 11}},
    healing_case{3, 1, 5, {1, 12}, {10, 11, 12}},
    healing_case{
      3, 1, 100, {0, 12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    healing_case{3, 1, 4, {2, 25, 0}, {24, 25}},
    healing_case{3, 1, 4, {0, 15}, {13, 14, 15}},
    healing_case{3, 1, 1, {1, 5}, {4}},
    healing_case{2, 1, 4, {1, 5}, {4, 5, 6, 7}},
    healing_case{2, 1, 4, {0, 25}, {24, 25}},
    healing_case{2, 2, 5, {3, 6}, {5, 6, 7, 8, 9}},
    healing_case{2, 2, 5, {0, 6, 1}, {5, 6, 7, 8, 9}}));

TEST(HealingCases, CopiesOnADevice) {
  const simulated_devices devices;
  for (const auto& fault : {flip{1, 5}, flip{0, 9, 1}}) {
    std::vector<audit_outcome> found;
    const auto texts =
      fit_on(3, 1, {fault}, audited(4), found, {device_kind::cuda, 0});
    EXPECT_EQ(flips_in(found), 1);
    for (std::uint32_t w = 0; w < 3; ++w) {
      EXPECT_EQ(texts[w], "");
      expect_equal(found[w], undisturbed(3));
    }
  }
}

/// The loss is not finite then, which ends a fit by `on_nan::stop`.
TEST(HealingCases, AFlipThatMakesTheLossInfinite) {
  std::vector<audit_outcome> found;
  const auto texts =
    fit_on(3, 1, {{.replica = 1, .step = 5, .bit = 30}}, audited(100), found);
  EXPECT_EQ(flips_in(found), 1);
  for (std::uint32_t w = 0; w < 3; ++w) {
    EXPECT_EQ(texts[w], "");
    expect_equal(found[w], undisturbed(3));
    EXPECT_FALSE(found[w].repeated.empty());
  }
}

TEST(HealingCases, EndWithAnErrorIfTheCopyDeviatesAgainAndAgain) {
  std::vector<audit_outcome> found;
  const auto texts = fit_on(
    3, 1, {{.replica = 2, .step = 5, .each_time = true}}, audited(4), found);
  EXPECT_EQ(flips_in(found), 4);
  for (const auto& text : texts)
    EXPECT_EQ(text,
              "the parameters or the optimizer's state of replica 2 of worker "
              "2 deviate from the majority of the copies since one of the "
              "steps 4 to 7; the steps from 4 on were made again 3 times in "
              "vain; replace that machine");
}

/// `max_steps` counts a step that was made again once.
TEST(HealingCases, KeepTheNumberOfSteps) {
  auto how = audited(4);
  how.max_steps = 10;
  std::vector<audit_outcome> found;
  const auto texts = fit_on(2, 1, {{.replica = 1, .step = 9}}, how, found);
  EXPECT_EQ(flips_in(found), 1);
  audit_outcome expected;
  train(turns(2), {}, how, expected);
  for (std::uint32_t w = 0; w < 2; ++w) {
    EXPECT_EQ(texts[w], "");
    EXPECT_EQ(found[w].past.end, fit_end::max_steps);
    expect_equal(found[w], expected);
    EXPECT_EQ(found[w].repeated, (step_list{8, 9}));
  }
}

/// One process has the copies, one on each device.
TEST(HealingCases, CopiesOnSeveralDevicesAreHealed) {
  const simulated_devices devices;
  runtime actors;
  for (const std::uint64_t step : {9, 24}) {
    audit_outcome found, expected;
    train(mirrored_strategy{actors, {"cuda:0", "cuda:1"}},
          {{.replica = 1, .step = step}}, audited(4), found);
    train(turns(2), {}, audited(4), expected);
    EXPECT_EQ(found.flips, 1);
    expect_equal(found, expected);
    EXPECT_FALSE(found.repeated.empty());
  }
}

/// Cuts off worker 2 when its replica contributes to one of the gathers that
/// follow a deviation.
class cut_in_healing final : public fault_injector {
public:
  /// @param gather number of the gather in the job: 1 ends the run of the
  ///               epoch, 2 gathers the snapshots, 3 says that all have
  ///               restored one.
  explicit cut_in_healing(std::uint64_t gather) : gather_{gather} {}

  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    if (armed && kind == message_kind::gather_contribution
        && sender == replica_id(2) && step == gather_ && !fired.exchange(true))
      cut_off(*victim);
    return {};
  }

  std::atomic<const strategy*> victim = nullptr;
  std::atomic<bool> armed = false, fired = false;

private:
  const std::uint64_t gather_;
};

class LossInHealing : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(LossInHealing, EndsWithTheUndisturbedBits) {
  const auto faults = std::make_shared<cut_in_healing>(GetParam());
  multi_worker_options options;
  options.faults = faults;
  std::vector<audit_outcome> found(3);
  const auto thrown =
    run_on_cluster(3, options, [&](const strategy& on, std::uint32_t w) {
      if (w == 2)
        faults->victim = &on;
      train(on, {{.replica = 1, .step = 5}}, audited(4), found[w],
            [&](const step_record& x) {
              if (w == 2 && x.step == 6)
                faults->armed = true;
            });
    });
  EXPECT_EQ(flips_in(found), 1);
  EXPECT_TRUE(faults->fired);
  EXPECT_NE(exception_text(thrown[2]), "");
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    expect_equal(found[w], undisturbed(3));
    EXPECT_FALSE(found[w].repeated.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, LossInHealing, ::testing::Values(1, 2, 3));

/// All workers have processed steps 4 to 7 once when they return to step 4. The
/// chief is lost in its second call for step 6, after those of the others.
TEST(HealingCases, TheSuccessorOfAChiefMissesNoStepThatIsMadeAgain) {
  constexpr std::uint64_t lost_in = 6;
  std::vector<audit_outcome> found(3);
  step_list of_successor; // the calls that worker 1 makes as the chief
  call_counter of_others;
  std::atomic<bool> is_cut = false;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      train(on, {{.replica = 1, .step = 5}}, audited(4), found[w],
            [&](const step_record& x) {
              if (w == 1 && on.is_chief())
                of_successor.push_back(x.step);
              if (x.step != lost_in || !x.repeated || is_cut)
                return;
              if (w != 0)
                return of_others.count();
              of_others.wait_for(2);
              is_cut = true;
              cut_off(on);
            });
    });
  EXPECT_EQ(flips_in(found), 1);
  EXPECT_TRUE(is_cut);
  EXPECT_NE(exception_text(thrown[0]), "");
  for (const std::uint32_t w : {1, 2}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    expect_equal(found[w], undisturbed(3));
  }
  ASSERT_FALSE(of_successor.empty());
  EXPECT_LE(of_successor.front(), lost_in);
  auto rest = steps_to(2 * epoch_steps);
  rest.erase(rest.begin(), std::ranges::find(rest, of_successor.front()));
  EXPECT_EQ(of_successor, rest);
}

const std::string suspect =
  "; all steps since then are suspect (load the last saved file, or fit with "
  "on_deviation heal, in the tool --on-deviation heal)";

TEST(Audit, NamesTheReplicaAndTheStepsIfThreeCopiesDiffer) {
  for (const std::uint32_t bad : {0, 1, 2})
    for (const bool in_slot : {false, true}) {
      flip fault{.replica = bad, .step = 5};
      if (in_slot)
        fault.slot = 0;
      std::vector<audit_outcome> found;
      const auto texts =
        fit_on(3, 1, {fault}, audited(4, on_deviation::stop), found);
      EXPECT_EQ(flips_in(found), 1);
      for (const auto& text : texts)
        EXPECT_EQ(text, "the parameters or the optimizer's state of replica "
                          + std::to_string(bad) + " of worker "
                          + std::to_string(bad)
                          + " deviate from the majority of the copies since "
                            "one of the steps 4 to 7"
                          + suspect);
      for (const auto& one : found)
        EXPECT_TRUE(one.is_suspect);
    }
}

/// No copy makes the update of the step in which the deviation is found. The
/// flip in step 7 changes the update that replica 1 makes in that step. The
/// audit before the update of step 8 finds it.
TEST(Audit, LeavesTheWeightsBeforeTheStepInWhichItStops) {
  std::vector<audit_outcome> found;
  const auto texts = fit_on(3, 1, {{.replica = 1, .step = 7, .slot = 0}},
                            audited(4, on_deviation::stop), found);
  EXPECT_EQ(flips_in(found), 1);
  audit_outcome expected;
  auto how = audited(0);
  how.max_steps = 8;
  train(turns(3), {}, how, expected);
  for (const std::uint32_t w : {0, 1, 2}) {
    EXPECT_NE(texts[w], "");
    EXPECT_EQ(same_bits(found[w].weights, expected.weights), w != 1);
  }
}

TEST(Audit, NamesBothReplicasIfTwoCopiesDiffer) {
  std::vector<audit_outcome> found;
  const auto texts = fit_on(2, 1, {{.replica = 1, .step = 12}},
                            audited(5, on_deviation::stop), found);
  EXPECT_EQ(flips_in(found), 1);
  for (const auto& text : texts)
    EXPECT_EQ(text,
              "the copies of the parameters and the optimizer's state differ "
              "since one of the steps 10 to 12, and none is known to be right: "
              "replica 0 of "
              "worker 0, replica 1 of worker 1"
                + suspect);
}

TEST(Audit, IsOffIfItsNumberOfStepsIsZero) {
  std::vector<audit_outcome> found;
  const auto texts = fit_on(2, 1, {{.replica = 1, .step = 5}},
                            audited(0, on_deviation::stop), found);
  EXPECT_EQ(flips_in(found), 1);
  EXPECT_EQ(texts, (std::vector<std::string>(2)));
}

/// Fits on three workers. The copy of worker 1 deviates when worker 2 is lost.
/// Worker 0 or 1 adopts its replica, and the state of that step is compared at
/// once. Worker 2 is cut off in a step that the others have begun, and
/// contributes nothing. So neither of the others takes the state of the other
/// one.
/// @param lost_in number of that step.
/// @returns the text of each worker's exception. Empty: none.
std::vector<std::string> fit_with_a_loss(std::uint64_t lost_in,
                                         on_deviation reaction,
                                         std::vector<audit_outcome>& found) {
  found.assign(3, {});
  call_counter of_others;
  std::atomic<bool> is_cut = false;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      train(on, {{.replica = 1, .step = 5}}, audited(100, reaction), found[w],
            {}, [&](std::uint64_t step) {
              if (step != lost_in)
                return;
              if (w != 2)
                return of_others.count();
              of_others.wait_for(2);
              is_cut = true;
              cut_off(on);
              // They make the step again, or find the deviation in it.
              of_others.wait_for(4);
            });
    });
  EXPECT_EQ(flips_in(found), 1);
  EXPECT_TRUE(is_cut);
  std::vector<std::string> texts;
  for (const auto& x : thrown)
    texts.push_back(exception_text(x));
  EXPECT_NE(texts[2], "");
  return texts;
}

TEST(Audit, FindsADeviationInTheViewAfterALoss) {
  constexpr std::uint64_t lost_in = 8;
  std::vector<audit_outcome> found;
  const auto texts = fit_with_a_loss(lost_in, on_deviation::heal, found);
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_EQ(texts[w], "");
    expect_equal(found[w], undisturbed(3));
    ASSERT_FALSE(found[w].repeated.empty());
    EXPECT_LT(found[w].repeated.back(), lost_in);
  }
}

/// The copy of the replica that worker 0 has adopted is made from its own one.
/// With a vote it would make worker 0 a majority of two copies against one.
TEST(Audit, NamesAllReplicasIfTheLastTwoProcessesDiffer) {
  std::vector<audit_outcome> found;
  const auto texts = fit_with_a_loss(8, on_deviation::stop, found);
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_EQ(texts[w],
              "the copies of the parameters and the optimizer's state differ "
              "since one of the steps 0 to 7, and none is known to be right: "
              "replicas 0, 2 of worker 0, replica 1 of worker 1"
                + suspect);
    EXPECT_TRUE(found[w].is_suspect);
  }
}

/// A limit that docs/protocols/audit.md states: worker 1 takes the state of
/// worker 0, which deviates, and no third copy is left.
TEST(Audit, DoesNotFindADeviationOfTheOnlyStateThatIsLeft) {
  const auto faults = std::make_shared<one_step_apart>();
  multi_worker_options options;
  options.faults = faults;
  std::vector<audit_outcome> found(3);
  const auto thrown =
    run_on_cluster(3, options, [&](const strategy& on, std::uint32_t w) {
      if (w == 2)
        faults->victim = &on;
      train(on, {{.replica = 0, .step = 3}}, audited(100, on_deviation::stop),
            found[w]);
    });
  EXPECT_EQ(flips_in(found), 1);
  EXPECT_TRUE(faults->ahead);
  EXPECT_NE(exception_text(thrown[2]), "");
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(found[w].past.end, fit_end::done);
    EXPECT_FALSE(found[w].is_suspect);
    EXPECT_EQ(found[w].steps, steps_to(2 * epoch_steps));
    EXPECT_TRUE(same_bits(found[w].weights, found[0].weights));
  }
  EXPECT_FALSE(same_bits(found[0].weights, undisturbed(3).weights));
}

/// Worker 2 is lost in the first epoch and joins again in the third one. A bit
/// flips in the second epoch, and the program that joins learns of the healing
/// from the job's results. Or it flips in the fourth one, in which that program
/// takes part. Or a bit flips in the step before the join, so that worker 2 has
/// no snapshot of its own.
TEST(Audit, HealsBeforeAndAfterAJoin) {
  for (const std::uint64_t step : {19, 31, 45}) {
    auto how = audited(5);
    how.epochs = 4;
    std::promise<void> may_join;
    auto joins = may_join.get_future();
    std::once_flag once;
    std::vector<audit_outcome> found(3);
    int lives = 0;
    const auto wait_for_join = [&](const strategy& on) {
      auto& peers = peers_of(on);
      std::unique_lock hold{peers.lock};
      const auto is_complete = [&] { return peers.view.members.size() == 3; };
      if (peers.view.view_id == 1 || is_complete())
        return;
      std::call_once(once, [&] { may_join.set_value(); });
      EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + patience, [&] {
        return peers.stop.requested || is_complete();
      }));
    };
    const auto thrown =
      run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
        const bool is_first = w != 2 || ++lives == 1;
        try {
          train(on, {{.replica = 0, .step = step}}, how, found[w],
                [&](const step_record& x) {
                  if (w == 2 && is_first && x.step == 3)
                    cut_off(on);
                  if (w != 2 && x.step == 32)
                    wait_for_join(on);
                });
        } catch (const job_error&) {
          if (w != 2 || !is_first)
            throw;
          EXPECT_EQ(joins.wait_for(patience), std::future_status::ready);
          found[w] = {};
          throw start_again{};
        }
      });
    EXPECT_EQ(lives, 2);
    EXPECT_EQ(flips_in(found), 1);
    for (std::uint32_t w = 0; w < 3; ++w) {
      SCOPED_TRACE("worker " + std::to_string(w));
      EXPECT_EQ(exception_text(thrown[w]), "");
      expect_equal(found[w], undisturbed(3, 4));
      EXPECT_EQ(found[w].repeated.empty(), w == 2 && step != 45);
      if (w == 2 && step == 31) { // all have returned to step 30
        EXPECT_EQ(found[w].steps.front(), 30u);
      }
    }
  }
}

/// A process that knows of a deviation tells the others in the next view, also
/// if the copy that deviates is lost.
TEST(Audit, RemembersADeviationIfItsCopyIsLost) {
  expect_success_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    const auto model = audited_model(on);
    const auto how = audited(4);
    parameter_audit knows{*model, how}, new_view{*model, how};
    knows.begin_run(0, false, false);
    std::vector<copy_report> differ{{0, 0, 0, 1}, {1, 1, 0, 2}};
    EXPECT_FALSE(knows.judge(4, 0, differ));
    std::vector<double> values(parameter_audit::report_values);
    const auto report_of = [&](const parameter_audit& x) {
      x.write_report(0, 4, values);
      return parameter_audit::read_report(w, values);
    };
    std::vector<copy_report> equal{report_of(knows), report_of(new_view)};
    EXPECT_TRUE(are_equal(equal));
    EXPECT_FALSE(new_view.judge(4, 0, equal));
    EXPECT_EQ(new_view.deviation(),
              "a copy of the parameters and the optimizer's state in a process "
              "that was lost has deviated from the others since one of the "
              "steps 0 to 3");
    equal[0] = equal[1];
    EXPECT_TRUE((parameter_audit{*model, how}.judge(4, 0, equal)));
  });
}

/// A snapshot whose own memory has changed is not used.
TEST(StateSnapshot, IsNotIntactAfterAFlip) {
  const auto on = turns(1);
  const auto scope = on.scope();
  const auto model = audited_model(on);
  state_snapshot it;
  EXPECT_FALSE(it.is_intact());
  it.take(*model, 0, 3, hash_of_copy(*model, 0));
  EXPECT_TRUE(it.is_intact());
  auto slot = it.tensors().at(2);
  slot.mutable_data<float>()[7] += 1;
  EXPECT_FALSE(it.is_intact());
}

fit_options thousand_steps() {
  auto how = audited(3, on_deviation::stop);
  how.epochs = 77;
  return how;
}

void expect_thousand_steps(const audit_outcome& found) {
  EXPECT_EQ(found.past.epochs.back().steps, 1001u);
  EXPECT_TRUE(found.repeated.empty());
}

TEST(Audit, RaisesNoFalseAlarmInOneProcess) {
  runtime actors;
  for (const strategy& on :
       {strategy{turns(2)},
        strategy{mirrored_strategy{actors, {"cpu:0", "cpu:1"}}}}) {
    audit_outcome found;
    train(on, {}, thousand_steps(), found);
    expect_thousand_steps(found);
  }
}

TEST(Audit, RaisesNoFalseAlarmOverALossAndAJoin) {
  std::promise<void> is_reached;
  auto reached = is_reached.get_future();
  std::vector<audit_outcome> found(3);
  int lives = 0;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      const bool is_first = w != 1 || ++lives == 1;
      try {
        train(on, {}, thousand_steps(), found[w], [&](const step_record& x) {
          if (w == 1 && is_first && x.step == 100)
            cut_off(on);
          if (w == 0 && x.step == 200)
            is_reached.set_value();
          if (w == 0 && x.step == 700) { // the other one has joined by then
            auto& peers = peers_of(on);
            std::unique_lock hold{peers.lock};
            EXPECT_TRUE(
              peers.wait(hold, peer_table::clock::now() + patience, [&] {
                return peers.stop.requested || peers.view.members.size() == 3;
              }));
          }
        });
      } catch (const job_error&) {
        if (!is_first)
          throw;
        EXPECT_EQ(reached.wait_for(patience), std::future_status::ready);
        found[w] = {};
        throw start_again{};
      }
    });
  EXPECT_EQ(lives, 2);
  for (std::uint32_t w = 0; w < 3; ++w) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    expect_thousand_steps(found[w]);
    EXPECT_TRUE(same_bits(found[w].weights, found[0].weights));
  }
}

} // namespace

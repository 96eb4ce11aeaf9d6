#include "losses.hpp"
#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/tests/training/strategies/end_of_worker.hpp"
#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// The numbers of steps in errors, in the status and in plans of faults are
// those that the program counts, whatever it calls between them.

namespace {

using troupe::test::end_of_worker;

using namespace troupe;
using namespace troupe::test;
using namespace injection;

/// Thrown by a worker that is lost, so that it sends nothing more.
/// Makes a sum of some ones.
void add(replica_context& self) {
  self.all_reduce(sum, tensor::full({2}, 1));
}

/// Called in step `number`, on a replica's thread or that of the program.
using step_hook = std::function<void(const strategy&, std::uint64_t number)>;

/// Calls `run`, `reduce`, `gather` and `evaluate` in a plain loop.
void plain_loop(const strategy& on, const step_hook& at) {
  const auto scope = on.scope();
  auto it = small_model();
  it.evaluate(uneven_batches());
  for (std::uint64_t step = 0; step < 8; ++step) {
    const auto ones = on.run([&](replica_context& self) {
      add(self);
      at(on, step);
      add(self);
      return tensor::full({1}, 1);
    });
    on.reduce(sum, ones);
    on.gather(ones, 0);
    it.evaluate(uneven_batches());
  }
}

/// The iterations of `strategy::loop` from `first` on, in which `run` is called
/// twice.
void iterations(const strategy& on, std::uint64_t first, const step_hook& at) {
  const auto scope = on.scope();
  auto it = small_model();
  it.evaluate(uneven_batches());
  const auto batches = on.distribute(uneven_batches());
  for (const auto& each :
       on.loop("train", batches, {.epochs = 2, .first = {0, first}})) {
    on.run(add);
    const auto ones = on.run([&](replica_context& self) {
      add(self);
      at(on, each.number);
      add(self);
      return tensor::full({1}, 1);
    });
    on.reduce(sum, ones);
    it.evaluate(uneven_batches());
  }
}

/// An evaluation and a fit.
void fit_after_evaluation(const strategy& on, const step_hook& at) {
  const auto scope = on.scope();
  auto it = small_model();
  it.evaluate(uneven_batches());
  at(on, 1);
  it.fit(uneven_batches(),
         {.callbacks = {
            {.on_step = [&](const step_record& x) { at(on, x.step + 1); }}}});
}

/// Runs two workers. The second one is lost in the step.
/// @returns the error of the other one.
std::string error_of_loss(
  std::uint64_t step,
  const std::function<void(const strategy&, const step_hook&)>& program) {
  const auto thrown =
    run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t w) {
      program(on, [&](const strategy& mine, std::uint64_t number) {
        if (w == 1 && number == step) {
          cut_off(mine);
          throw end_of_worker{};
        }
      });
    });
  return exception_text(thrown[0]);
}

void expect_lost_in(const std::string& error, const std::string& step) {
  EXPECT_NE(error.find("worker 1 was lost in " + step), error.npos) << error;
}

TEST(UserSteps, OfAPlainLoopAreItsCallsOfRun) {
  expect_lost_in(error_of_loss(5, plain_loop), "step 5:");
}

TEST(UserSteps, OfALoopAreItsIterations) {
  expect_lost_in(
    error_of_loss(
      5, [](const auto& on, const step_hook& at) { iterations(on, 0, at); }),
    "step 5:");
}

TEST(UserSteps, OfALoopThatIsResumedAreItsIterations) {
  expect_lost_in(
    error_of_loss(
      10, [](const auto& on, const step_hook& at) { iterations(on, 9, at); }),
    "step 10:");
}

TEST(UserSteps, AfterALossAreThoseOfTheProgram) {
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      iterations(on, 0, [&](const strategy& mine, std::uint64_t number) {
        if ((w == 2 && number == 3) || (w == 1 && number == 6)) {
          cut_off(mine);
          throw end_of_worker{};
        }
      });
    });
  expect_lost_in(exception_text(thrown[0]), "step 6:");
}

TEST(UserSteps, OfAnEvaluationAreOperations) {
  const auto thrown =
    run_on_cluster(2, {}, [](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      const models::metric cut{
        .name = "cut",
        .sums = 1,
        .add =
          [&](const tensor&, const tensor&, std::span<double>) {
            if (w == 1)
              cut_off(on);
          },
        .value = [](std::span<const double>) { return 0.0; }};
      it.evaluate(uneven_batches(), {.metrics = {{cut}}});
    });
  expect_lost_in(exception_text(thrown[0]), "evaluate (operation ");
}

/// Lets a plan kill worker 1 at a step.
/// @returns the last number that a step_hook got before. None: no kill.
std::optional<std::uint64_t> step_of_kill(
  std::uint64_t step,
  const std::function<void(const strategy&, const step_hook&)>& program) {
  std::function<void()> kill;
  const process_faults functions{.kill = [&] { kill(); },
                                 .stop = [](auto) {},
                                 .cut = [](auto) { return std::size_t{0}; },
                                 .wait = [](auto) {}};
  multi_worker_options options;
  // Both workers send by it, but only the fault of process 1 is in the plan.
  options.faults = std::make_shared<process_fault_injector>(
    faults{}.kill(process{1}, at_step{step}), 1, fault_notes{}, functions);
  std::atomic<const strategy*> victim = nullptr;
  std::atomic<std::uint64_t> seen = 0;
  std::optional<std::uint64_t> killed_in;
  kill = [&] {
    killed_in = seen.load();
    if (const auto* const on = victim.load())
      cut_off(*on);
  };
  const auto thrown =
    run_on_cluster(2, options, [&](const strategy& on, std::uint32_t w) {
      if (w == 1)
        victim = &on;
      program(on, [&](const strategy&, std::uint64_t number) {
        auto before = seen.load();
        while (before < number && !seen.compare_exchange_weak(before, number)) {
        }
      });
    });
  const auto text = exception_text(thrown[0]);
  EXPECT_NE(text, "") << "the fault did not fire";
  return killed_in;
}

TEST(UserSteps, InAPlanOfFaultsAreThoseOfAPlainLoop) {
  const auto found = step_of_kill(5, plain_loop);
  ASSERT_TRUE(found);
  EXPECT_GE(*found, 4u); // the first message may come before the step_hook
  EXPECT_LE(*found, 5u);
}

TEST(UserSteps, InAPlanOfFaultsAreTheIterationsOfALoop) {
  const auto found = step_of_kill(
    5, [](const auto& on, const step_hook& at) { iterations(on, 0, at); });
  ASSERT_TRUE(found);
  EXPECT_GE(*found, 4u);
  EXPECT_LE(*found, 5u);
}

TEST(UserSteps, InAPlanOfFaultsAreNoBatchesOfAnEvaluation) {
  const auto found = step_of_kill(5, fit_after_evaluation);
  ASSERT_TRUE(found);
  EXPECT_GE(*found, 1u); // replicas run ahead of the callbacks
  EXPECT_LE(*found, 6u);
}

} // namespace

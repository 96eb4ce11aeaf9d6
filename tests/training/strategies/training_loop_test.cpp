#include "losses.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/strategies/end_of_worker.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <optional>
#include <stdexcept>

// Loops of `strategy::loop`: that they read what a range-for over the dataset
// reads, and that workers can be lost and can join in them. The mistakes S0 to
// S9 are listed in tests/training/loop/fit/new_user_results_test.cpp.

namespace {

using troupe::test::end_of_worker;

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;
constexpr std::uint64_t epochs = 2; // of each loop, with 13 batches each

struct recorded_step {
  std::uint64_t loop = 0, epoch = 0, index = 0, number = 0;
  float loss = 0;
  friend bool operator==(const recorded_step&, const recorded_step&) = default;
};

struct loops_outcome {
  std::vector<recorded_step> steps;
  std::string weights;
  std::uint64_t updates = 0, own_updates = 0;
  double loss = 0; ///< Of the evaluation between the loops.
};

void expect_equal(const loops_outcome& found, const loops_outcome& expected) {
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.updates, expected.updates);
  EXPECT_EQ(found.own_updates, expected.own_updates);
  EXPECT_EQ(found.loss, expected.loss);
}

/// The models and optimizers of a program. The model has dropout, and the
/// second optimizer has slots of its own.
struct trainer {
  explicit trainer(const strategy& on) : on{on} {}

  /// @returns the loss of the batch.
  float step(const per_replica<batch>& values,
             const std::function<void()>& inside = {}) {
    const auto losses = on.run(
      [&](replica_context& self, const batch& mine) {
        tape t;
        const auto loss = models::cross_entropy(
                            it(mine.inputs, {.training = true}), mine.labels)
                          / mine.global_rows;
        const auto gradients = t.gradient(loss, it.variables());
        it.optimizer().apply(self.all_reduce(sum, gradients), it.variables());
        if (inside)
          inside();
        second.apply(self.all_reduce(mean, gradients), it.variables());
        return loss.detach();
      },
      values);
    return on.reduce(sum, losses, {0}).item<float>();
  }

  const strategy on;
  model it = small_model();
  optimizer second{sgd{.learning_rate = 0.01f, .momentum = 0.9f}};
};

/// Where a program calls its loop_hook.
enum class place { in_step, between_loops };
using loop_hook =
  std::function<void(place, std::uint64_t loop, const loop_iteration& step)>;

/// Two loops over the same dataset and, between them, an evaluation.
void run_program(const strategy& on, loops_outcome& out, const loop_hook& at) {
  const auto scope = on.scope();
  trainer of{on};
  const auto batches = on.distribute(uneven_batches());
  const auto run_loop = [&](std::uint64_t number) {
    for (auto& step : on.loop("train", batches, {.epochs = epochs})) {
      EXPECT_EQ(step.values.replica_ids(), on.local_replica_ids());
      const auto loss =
        of.step(step.values, [&] { at(place::in_step, number, step); });
      out.steps.push_back({number, step.epoch, step.index, step.number, loss});
    }
  };
  run_loop(0);
  at(place::between_loops, 0, {});
  out.loss = of.it.evaluate(uneven_batches()).loss;
  run_loop(1);
  out.weights = of.it.weights_sha256();
  out.updates = of.it.optimizer().steps();
  out.own_updates = of.second.steps();
}

/// The same program with range-for loops over the dataset.
loops_outcome plain_program() {
  const auto on = turns(workers);
  const auto scope = on.scope();
  trainer of{on};
  loops_outcome out;
  const auto batches = on.distribute(uneven_batches());
  const auto run_loop = [&](std::uint64_t loop) {
    std::uint64_t number = 0;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      std::uint64_t index = 0;
      for (const auto& each : batches)
        out.steps.push_back({loop, epoch, index++, number++, of.step(each)});
    }
  };
  run_loop(0);
  out.loss = of.it.evaluate(uneven_batches()).loss;
  run_loop(1);
  out.weights = of.it.weights_sha256();
  out.updates = of.it.optimizer().steps();
  out.own_updates = of.second.steps();
  return out;
}

const loops_outcome& undisturbed() {
  static const auto once = plain_program();
  return once;
}

TEST(TrainingLoop, EqualsARangeForOverTheDataset) {
  loops_outcome found;
  run_program(turns(workers), found, [](auto&&...) {});
  expect_equal(found, undisturbed());
  EXPECT_EQ(found.steps.size(), 2 * epochs * 13);
}

TEST(TrainingLoop, EqualsARangeForInAJobOfSeveralWorkers) {
  std::vector<loops_outcome> found(workers);
  expect_nothing_thrown(
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      run_program(on, found[w], [](auto&&...) {});
    }));
  for (const auto& one : found)
    expect_equal(one, undisturbed());
}

/// Thrown by a worker that is lost, so that it sends nothing more.
/// A loop that begins in the middle of an epoch makes the rest of the
/// iterations.
void run_rest(const strategy& on, const data::position& first,
              std::vector<recorded_step>& out,
              const std::function<void(const loop_iteration&)>& at = {}) {
  const auto scope = on.scope();
  trainer of{on};
  const auto batches = on.distribute(uneven_batches());
  for (auto& step :
       on.loop("rest", batches, {.epochs = epochs, .first = first})) {
    if (at)
      at(step);
    // The values of the batch, which do not depend on the steps before.
    const auto sums = on.run(
      [](const batch& mine) {
        double total = 0;
        for (const auto x : mine.inputs.data<float>())
          total += double(x);
        return total;
      },
      step.values);
    out.push_back(
      {0, step.epoch, step.index, step.number, float(on.reduce(sum, sums))});
  }
  // Loops after it read the epochs that follow.
  EXPECT_EQ(batches.epochs_begun(), epochs);
}

TEST(TrainingLoopFirst, BeginsAtAPosition) {
  std::vector<recorded_step> all;
  run_rest(turns(workers), {}, all);
  ASSERT_EQ(all.size(), epochs * 13);
  for (const auto& first :
       {data::position{0, 0}, data::position{0, 5}, data::position{0, 13},
        data::position{1, 0}, data::position{1, 12}, data::position{2, 0}}) {
    SCOPED_TRACE(std::to_string(first.epoch) + ", "
                 + std::to_string(first.index));
    const std::vector<recorded_step> expected{
      all.begin() + std::ptrdiff_t(13 * first.epoch + first.index), all.end()};
    std::vector<recorded_step> found;
    run_rest(turns(workers), first, found);
    EXPECT_EQ(found, expected);
    std::vector<std::vector<recorded_step>> of_workers(workers);
    expect_nothing_thrown(
      run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
        run_rest(on, first, of_workers[w]);
      }));
    for (const auto& one : of_workers)
      EXPECT_EQ(one, expected);
  }
}

TEST(TrainingLoopFirst, IsKeptWhenAWorkerIsLost) {
  std::vector<recorded_step> expected;
  run_rest(turns(workers), {0, 9}, expected);
  std::vector<std::vector<recorded_step>> found(workers);
  const auto thrown =
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      run_rest(on, {0, 9}, found[w], [&](const loop_iteration& step) {
        if (w != 1 || step.number != 15)
          return;
        cut_off(on);
        throw end_of_worker{};
      });
    });
  for (const std::uint32_t w : {0, 2}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(found[w], expected);
  }
}

TEST(TrainingLoopFirst, BehindTheEndIsRejected) {
  const auto on = turns(2);
  const auto batches = on.distribute(uneven_batches());
  for (const auto& first :
       {data::position{2, 1}, data::position{3, 0}, data::position{0, 14}})
    EXPECT_THROW(on.loop("rest", batches, {.epochs = 2, .first = first}),
                 std::invalid_argument);
  std::vector<std::exception_ptr> thrown =
    run_on_cluster(2, {}, [&](const strategy& workers_of, std::uint32_t w) {
      std::vector<recorded_step> steps;
      run_rest(workers_of, {0, w}, steps);
    });
  for (const auto& x : thrown)
    EXPECT_NE(exception_text(x).find("first iteration: epoch 0, batch 1"),
              std::string::npos)
      << exception_text(x);
}

/// What a loop does wrong on worker 1.
enum class mistake { no_all_reduce, other_learning_rate, written_variable };

/// @param is_loop the steps are in a loop of the strategy.
/// @returns the errors of the workers, and the number of calls of `run` that
///          have succeeded.
std::pair<std::vector<std::string>, std::vector<int>>
errors_of_loop(mistake made, bool is_loop) {
  std::vector<int> runs(2);
  const auto thrown =
    run_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      if (made == mistake::other_learning_rate && w == 1)
        it.optimizer().set_learning_rate(0.5f);
      if (made == mistake::written_variable && w == 1)
        it.variables()[0].value().mutable_data<float>()[0] = 3;
      const auto batches = on.distribute(digits_200().batch(20));
      const auto step = [&](const per_replica<batch>& values) {
        on.run(
          [&](replica_context& self, const batch& mine) {
            tape t;
            const auto loss =
              models::cross_entropy(it(mine.inputs), mine.labels)
              / mine.global_rows;
            const auto gradients = t.gradient(loss, it.variables());
            it.optimizer().apply(made == mistake::no_all_reduce
                                   ? gradients
                                   : self.all_reduce(sum, gradients),
                                 it.variables());
          },
          values);
        ++runs[w];
      };
      if (is_loop) {
        for (auto& one : on.loop("wrong", batches, {.epochs = 12}))
          step(one.values);
      } else {
        for (int epoch = 0; epoch < 12; ++epoch)
          for (const auto& values : batches)
            step(values);
      }
    });
  return {{exception_text(thrown[0]), exception_text(thrown[1])}, runs};
}

TEST(NewUserResults, S9ALoopWhoseCopiesDifferIsFoundByAnAudit) {
  for (const auto made : {mistake::no_all_reduce, mistake::other_learning_rate,
                          mistake::written_variable})
    for (const bool is_loop : {true, false}) {
      const auto [errors, runs] = errors_of_loop(made, is_loop);
      for (const auto& text : errors) {
        EXPECT_NE(
          text.find("differ: replica 1 has other values than replica 0"),
          text.npos)
          << text;
        for (const auto* cause :
             {"not reduced by all_reduce", "another learning rate",
              "a variable that the program has written"})
          EXPECT_NE(text.find(cause), text.npos) << text;
      }
      EXPECT_EQ(runs, (std::vector<int>{99, 99}));
    }
}

class TrainingLoopLoss : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(TrainingLoopLoss, InAnIterationGivesTheUndisturbedResult) {
  const auto lost = GetParam();
  std::vector<loops_outcome> found(workers);
  std::atomic<bool> is_cut = false;
  const auto thrown =
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      run_program(on, found[w], [&](place, std::uint64_t loop, auto& step) {
        if (w != lost || loop != 1 || step.number != 4)
          return;
        is_cut = true;
        cut_off(on);
        throw end_of_worker{};
      });
    });
  EXPECT_TRUE(is_cut);
  for (std::uint32_t w = 0; w < workers; ++w)
    if (w != lost) {
      EXPECT_EQ(exception_text(thrown[w]), "");
      expect_equal(found[w], undisturbed());
    }
}

INSTANTIATE_TEST_SUITE_P(All, TrainingLoopLoss, ::testing::Values(0u, 1u, 2u));

struct case_of_join {
  std::uint32_t lost = 0;
  place where = place::in_step;
  /// With `in_step`: the process that joins asks in this iteration.
  std::uint64_t loop = 0, number = 0;
  /// A survivor that is lost in iteration 20 of the second loop. None: `lost`.
  std::uint32_t lost_later = lost;
};

void PrintTo(const case_of_join& x, std::ostream* out) {
  *out << "worker " << x.lost << " joins ";
  if (x.where == place::between_loops)
    *out << "between the loops";
  else
    *out << "in iteration " << x.number << " of loop " << x.loop;
  if (x.lost_later != x.lost)
    *out << ", and worker " << x.lost_later << " is lost later";
}

class TrainingLoopJoin : public ::testing::TestWithParam<case_of_join> {};

/// Lets the survivors wait until a process has asked to join.
void wait_for_candidate(const strategy& on) {
  auto& peers = peers_of(on);
  std::unique_lock hold{peers.lock};
  EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + patience,
                         [&] {
                           return peers.stop.requested
                                  || !peers.deferral.waiting.empty()
                                  || (peers.view.view_id > 2
                                      && peers.view.members.size() == workers);
                         }))
    << "no process asked to join";
}

TEST_P(TrainingLoopJoin, GivesTheUndisturbedResultInAllProcesses) {
  const auto join = GetParam();
  std::promise<void> may_join;
  auto is_reached = may_join.get_future();
  std::once_flag once;
  std::vector<loops_outcome> found(workers);
  std::vector<std::optional<recorded_step>> first_here(workers);
  std::vector<membership::view> views(workers);
  std::vector<std::atomic<int>> waits(workers);
  int lives = 0; // of the lost worker
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const bool is_lost = w == join.lost && lives++ == 0;
    found[w] = {};
    const auto at = [&](place where, std::uint64_t loop,
                        const loop_iteration& step) {
      if (where == place::in_step && step.is_first_here && !first_here[w])
        first_here[w] = {loop, step.epoch, step.index, step.number, 0};
      if (w == join.lost_later && w != join.lost && where == place::in_step
          && loop == 1 && step.number == 20) {
        cut_off(on);
        throw end_of_worker{};
      }
      if (is_lost && where == place::in_step && loop == 0 && step.number == 2) {
        cut_off(on);
        throw end_of_worker{};
      }
      if (w == join.lost || where != join.where
          || (where == place::in_step
              && (loop != join.loop || step.number != join.number)))
        return;
      if (waits[w]++ > 0)
        return; // the step is made again, or another replica makes it
      std::call_once(once, [&] { may_join.set_value(); });
      wait_for_candidate(on);
    };
    try {
      run_program(on, found[w], at);
      views[w] = peers_of(on).get([&] {
        EXPECT_TRUE(peers_of(on).deferral.waiting.empty());
        return peers_of(on).view;
      });
    } catch (const std::exception&) {
      if (!is_lost)
        throw;
      first_here[w].reset();
      EXPECT_EQ(is_reached.wait_for(patience), std::future_status::ready);
      throw start_again{};
    }
  };
  const auto thrown = run_on_cluster(workers, {}, run);
  const auto& expected = undisturbed();
  for (std::uint32_t w = 0; w < workers; ++w) {
    SCOPED_TRACE("worker " + std::to_string(w));
    if (w == join.lost_later && w != join.lost) {
      EXPECT_NE(exception_text(thrown[w]), "");
      continue;
    }
    EXPECT_EQ(exception_text(thrown[w]), "");
    if (w != join.lost) {
      expect_equal(found[w], expected);
      continue;
    }
    // The process that joins makes the iterations from then on.
    const bool is_between = join.where == place::between_loops;
    const auto begin =
      is_between ? epochs * 13 : join.loop * epochs * 13 + join.number + 1;
    auto rest = expected;
    rest.steps.erase(rest.steps.begin(),
                     rest.steps.begin() + std::ptrdiff_t(begin));
    expect_equal(found[w], rest);
    ASSERT_TRUE(first_here[w] && !rest.steps.empty());
    EXPECT_EQ(first_here[w]->loop, rest.steps.front().loop);
    EXPECT_EQ(first_here[w]->number, rest.steps.front().number);
  }
  EXPECT_EQ(lives, 2);
  // One view for each loss, and one for the join: no renewal was needed.
  const bool is_lost_later = join.lost_later != join.lost;
  EXPECT_EQ(views[join.lost].view_id, is_lost_later ? 4u : 3u);
  EXPECT_EQ(views[join.lost].members.size(), workers - is_lost_later);
}

INSTANTIATE_TEST_SUITE_P(
  All, TrainingLoopJoin,
  ::testing::Values(case_of_join{1, place::in_step, 0, 7},
                    case_of_join{0, place::in_step, 0, 7},
                    case_of_join{2, place::in_step, 0, 12},
                    case_of_join{1, place::in_step, 1, 3},
                    case_of_join{0, place::in_step, 1, 15},
                    case_of_join{2, place::in_step, 0,
                                 25}, // the last iteration
                    case_of_join{1, place::between_loops},
                    case_of_join{0, place::between_loops},
                    case_of_join{1, place::in_step, 1, 3, 0},
                    case_of_join{0, place::in_step, 0, 7, 2}));

/// A loop with a fit in two of its iterations.
/// @param at called in each iteration, with its number.
std::string weights_after_fits(const strategy& on,
                               const std::function<void(std::uint64_t)>& at) {
  const auto scope = on.scope();
  trainer of{on};
  for (auto& step : on.loop("fits", on.distribute(uneven_batches()))) {
    at(step.number);
    of.step(step.values);
    if (step.number == 1 || step.number == 9)
      of.it.fit(uneven_batches(), {.epochs = 1});
  }
  return of.it.weights_sha256();
}

/// A program that returns its weights. It calls the function in each iteration,
/// with its number.
using observed_program = std::function<std::string(
  const strategy&, const std::function<void(std::uint64_t)>&)>;

/// Returns the weights of a program, by worker. Worker 1 is lost in the third
/// iteration, and joins where the others are in another one.
std::vector<std::string> weights_of_joined(std::uint64_t joins_in,
                                           const observed_program& program) {
  std::promise<void> may_join;
  auto is_reached = may_join.get_future();
  std::vector<std::string> weights(workers);
  int lives = 0; // of worker 1
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const bool is_lost = w == 1 && lives++ == 0;
    try {
      weights[w] = program(on, [&](std::uint64_t number) {
        if (is_lost && number == 3) {
          cut_off(on);
          throw end_of_worker{};
        }
        if (w == 1 || number != joins_in)
          return;
        if (w == 0)
          may_join.set_value();
        wait_for_candidate(on);
      });
    } catch (const std::exception&) {
      if (!is_lost)
        throw;
      EXPECT_EQ(is_reached.wait_for(patience), std::future_status::ready);
      throw start_again{};
    }
  };
  expect_nothing_thrown(run_on_cluster(workers, {}, run));
  EXPECT_EQ(lives, 2);
  return weights;
}

/// Returns the weights of the undisturbed program, by worker.
std::vector<std::string>
weights_of_undisturbed(const observed_program& program) {
  const auto on = turns(workers);
  return std::vector<std::string>(workers, program(on, [](std::uint64_t) {}));
}

/// The process that joins has made only the second fit.
TEST(TrainingLoopJoins, AfterAFitOfAnIterationGivesTheUndisturbedResult) {
  EXPECT_EQ(weights_of_joined(6, weights_after_fits),
            weights_of_undisturbed(weights_after_fits));
}

constexpr std::uint64_t none = ~std::uint64_t{0}; // no iteration

/// A loop that changes the learning rate, and then a fit.
/// @param at called in each iteration, with its number, and with `none` between
///           the loop and the fit.
std::string
weights_after_loop_and_fit(const strategy& on,
                           const std::function<void(std::uint64_t)>& at) {
  const auto scope = on.scope();
  trainer of{on};
  for (auto& step : on.loop("loop", on.distribute(uneven_batches()))) {
    at(step.number);
    if (step.number == 2)
      of.it.optimizer().set_learning_rate(0.004f);
    of.step(step.values);
  }
  at(none);
  of.it.fit(uneven_batches(), {.epochs = 1});
  return of.it.weights_sha256();
}

/// The process that joins has made no step of the loop, and has the learning
/// rate of the beginning.
TEST(TrainingLoopJoins, BetweenALoopAndAFitGivesTheUndisturbedResult) {
  EXPECT_EQ(weights_of_joined(none, weights_after_loop_and_fit),
            weights_of_undisturbed(weights_after_loop_and_fit));
}

/// Runs a loop that each worker leaves after a number of iterations, and then
/// another loop.
std::string weights_after_break(const strategy& on, std::uint64_t iterations) {
  const auto scope = on.scope();
  trainer of{on};
  const auto batches = on.distribute(uneven_batches());
  for (auto& step : on.loop("short", batches, {.epochs = 2})) {
    if (step.number == iterations)
      break;
    of.step(step.values);
  }
  for (auto& step : on.loop("rest", batches)) {
    EXPECT_EQ(step.epoch, 0u);
    of.step(step.values);
  }
  return of.it.weights_sha256();
}

/// A program in whose loop a worker throws between two steps.
/// @param leaver worker that throws. `workers`: none, and the job has one
///        process.
/// @returns the losses that each worker has seen.
std::vector<std::vector<float>>
loop_with_exception(std::uint32_t leaver,
                    std::vector<std::exception_ptr>& thrown) {
  constexpr std::uint64_t leaves_in = 4;
  std::vector<std::vector<float>> losses(workers);
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    trainer of{on};
    for (auto& step : on.loop("train", on.distribute(uneven_batches()))) {
      if (w == leaver && step.number == leaves_in)
        throw end_of_worker{};
      losses[w].push_back(of.step(step.values));
    }
  };
  if (leaver == workers)
    run(turns(workers), 0);
  else
    thrown = run_on_cluster(workers, {}, run);
  return losses;
}

/// A strategy.loop has no leave. A worker whose program ends, for example
/// because of a signal, is lost to the others.
TEST(TrainingLoopEnd, OfAWorkerWhoseBodyThrowsIsALossToTheOthers) {
  std::vector<std::exception_ptr> thrown;
  const auto expected = loop_with_exception(workers, thrown).front();
  for (const std::uint32_t leaver : {1, 2}) {
    const auto losses = loop_with_exception(leaver, thrown);
    for (std::uint32_t w = 0; w < workers; ++w)
      if (w != leaver) {
        EXPECT_EQ(exception_text(thrown[w]), "");
        EXPECT_EQ(losses[w], expected);
      }
  }
}

TEST(TrainingLoopEnd, OfWorkerZeroEndsTheJob) {
  std::vector<std::exception_ptr> thrown;
  loop_with_exception(0, thrown);
  for (const std::uint32_t w : {1, 2})
    EXPECT_NE(exception_text(thrown[w]).find("worker 0, the leader, has shut "
                                             "down"),
              std::string::npos)
      << exception_text(thrown[w]);
}

TEST(TrainingLoop, EndsByABreakOnAllWorkers) {
  const auto on = turns(workers);
  std::string expected;
  {
    const auto scope = on.scope();
    trainer of{on};
    const auto batches = on.distribute(uneven_batches());
    std::uint64_t number = 0;
    for (const auto& each : batches) {
      if (number++ == 5)
        break;
      of.step(each);
    }
    for (const auto& each : batches)
      of.step(each);
    expected = of.it.weights_sha256();
  }
  EXPECT_EQ(weights_after_break(turns(workers), 5), expected);
  std::vector<std::string> found(workers);
  expect_nothing_thrown(
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      found[w] = weights_after_break(on, 5);
    }));
  for (const auto& one : found)
    EXPECT_EQ(one, expected);
}

TEST(TrainingLoop, NamesTheWorkerThatAloneLeavesTheLoopAtTheEndOfAnIteration) {
  const auto thrown =
    run_on_cluster(2, {}, [](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      trainer of{on};
      for (auto& step : on.loop("train", on.distribute(uneven_batches()))) {
        of.step(step.values);
        if (w == 1 && step.number == 3)
          break;
      }
    });
  for (const auto& one : thrown)
    EXPECT_EQ(
      exception_text(one),
      "the loop \"train\": worker 1 has left it by break or return after "
      "3 iterations, but worker 0 goes on after 4 iterations; all "
      "workers must leave a loop in the same iteration");
}

TEST(TrainingLoop, FailsOnAllWorkersIfOneLeavesItBeforeItsStep) {
  const auto thrown =
    run_on_cluster(2, {}, [](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      trainer of{on};
      for (auto& step : on.loop("train", on.distribute(uneven_batches()))) {
        if (w == 1 && step.number == 3)
          break;
        on.run([](const batch&) {}, step.values);
      }
    });
  for (const auto& one : thrown) {
    const auto text = exception_text(one);
    EXPECT_NE(
      text.find("all workers must make the same calls in the same order"),
      text.npos)
      << text;
  }
}

TEST(TrainingLoop, IsRefusedInAnIterationOfAnotherLoop) {
  const auto error_of = [](const strategy& on) -> std::string {
    const auto batches = on.distribute(uneven_batches());
    try {
      for (auto& outer : on.loop("outer", batches)) {
        (void)outer;
        for (auto& inner : on.loop("inner", batches))
          (void)inner;
      }
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "";
  };
  const std::string expected =
    "the loop \"inner\" was begun in an iteration of another loop; use a "
    "range-for over the dataset there";
  EXPECT_EQ(error_of(turns(2)), expected);
  expect_nothing_thrown(run_on_cluster(2, {}, [&](const strategy& on, auto) {
    EXPECT_EQ(error_of(on), expected);
  }));
}

TEST(TrainingLoop, NamesTheWorkerThatBeginsAnotherLoop) {
  const auto thrown =
    run_on_cluster(2, {}, [](const strategy& on, std::uint32_t w) {
      const auto batches = on.distribute(uneven_batches());
      for (auto& step : on.loop(w == 0 ? "train" : "other", batches))
        (void)step;
    });
  for (const auto& one : thrown)
    EXPECT_EQ(exception_text(one),
              "worker 1 has \"loop: other\", but worker 0 has \"loop: train\"; "
              "all workers must begin the same loop over the same data");
}

TEST(TrainingLoop, ChecksItsArguments) {
  const auto on = turns(2);
  const auto batches = on.distribute(uneven_batches());
  EXPECT_THROW((void)on.loop("none", batches, {.epochs = 0}),
               std::invalid_argument);
  EXPECT_THROW((void)turns(2).loop("other", batches), std::logic_error);
}

/// Worker 2 is lost in a loop, and starts again while the others wait.
/// @param before called before the loop.
/// @param again  the program of the process that starts again.
/// @returns the text of the exception of the process that starts again.
std::string refusal_of(const std::function<void(const strategy&)>& before,
                       const std::function<void(const strategy&)>& again) {
  std::promise<void> refused;
  auto is_refused = refused.get_future().share();
  std::vector<std::string> rejections(workers);
  std::vector<std::string> weights(workers);
  int lives = 0; // of worker 2
  const auto thrown = run_on_cluster(
    workers, {},
    [&](const strategy& on, std::uint32_t w) {
      if (w == 2 && lives++ > 0)
        return again(on);
      const auto scope = on.scope();
      trainer of{on};
      before(on);
      try {
        for (auto& step : on.loop("train", on.distribute(uneven_batches()))) {
          if (w == 2 && step.number == 2)
            cut_off(on);
          of.step(step.values);
          if (w == 0 && step.number == 5) {
            EXPECT_EQ(is_refused.wait_for(patience), std::future_status::ready);
          }
        }
      } catch (const std::exception&) {
        if (w == 2)
          throw start_again{};
        throw;
      }
      weights[w] = of.it.weights_sha256();
      rejections[w] =
        peers_of(on).get([&] { return peers_of(on).log.rejection; });
    },
    [&](std::uint32_t w) {
      if (w == 2)
        refused.set_value();
    });
  for (const std::uint32_t w : {0, 1})
    EXPECT_EQ(exception_text(thrown[w]), "");
  EXPECT_NE(weights[0], "");
  EXPECT_EQ(weights[0], weights[1]);
  return rejections[0] + '\n' + exception_text(thrown[2]);
}

TEST(TrainingLoopRefusal,
     OfAProgramThatCallsRunOutsideOfALoopSaysSoOnBothSides) {
  const auto outside = [](const strategy& on) { on.run([] { return 1; }); };
  const auto text = refusal_of(outside, outside);
  const std::string reason =
    "its program has called run, reduce or gather outside of strategy.loop, "
    "which a process that joins cannot repeat";
  EXPECT_TRUE(text.starts_with(reason + '\n')) << text;
  EXPECT_NE(text.find("no process can join this job: " + reason), text.npos)
    << text;
}

TEST(TrainingLoopRefusal, OfAnotherLoopNamesTheDifference) {
  const auto text = refusal_of(
    [](const strategy&) {},
    [](const strategy& on) {
      const auto scope = on.scope();
      trainer of{on};
      for (auto& step :
           on.loop("train", on.distribute(uneven_batches()), {.epochs = 7}))
        of.step(step.values);
    });
  EXPECT_NE(text.find("this worker, which joins the running job, has \"epochs: "
                      "7\", but worker 0 has \"epochs: 1\""),
            text.npos)
    << text;
}

TEST(TrainingLoopRefusal, AfterAnExceptionHasEndedALoop) {
  const auto text = refusal_of(
    [](const strategy& on) {
      try {
        for (auto& step : on.loop("first", on.distribute(uneven_batches()))) {
          (void)step;
          throw end_of_worker{};
        }
      } catch (const end_of_worker&) {
      }
    },
    [](const strategy& on) { on.run([] { return 1; }); });
  EXPECT_NE(
    text.find("an exception has ended the loop \"first\" of its program"),
    text.npos)
    << text;
}

} // namespace

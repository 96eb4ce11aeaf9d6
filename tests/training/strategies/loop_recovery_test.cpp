#include "losses.hpp"
#include "replica_ends.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/strategies/end_of_worker.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>

// Loops of one's own that go on when workers are lost.

namespace {

using troupe::test::end_of_worker;

using namespace troupe;
using namespace troupe::test;

/// Where a worker is lost in a step of the loop.
enum class place {
  before_run,
  before_all_reduce,
  before_apply,
  between_applies, ///< After the first update, before the second sum.
  before_second_apply,
  at_the_end_of_the_function,
  before_reduce,
  in_reduce,
};

constexpr std::array all_places{
  place::before_run,          place::before_all_reduce,
  place::before_apply,        place::between_applies,
  place::before_second_apply, place::at_the_end_of_the_function,
  place::before_reduce,       place::in_reduce};

/// What a loop gives in one process.
struct loop_outcome {
  std::vector<std::string> weights;
  std::vector<float> losses;      ///< Reduced, by step.
  std::vector<double> row_counts; ///< Reduced, by step.
  std::uint64_t first_updates = 0, second_updates = 0;
};

void expect_equal(const loop_outcome& found, const loop_outcome& expected) {
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.row_counts, expected.row_counts);
  EXPECT_EQ(found.first_updates, expected.first_updates);
  EXPECT_EQ(found.second_updates, expected.second_updates);
}

struct step_values {
  tensor loss;
  double rows = 0;
  auto fields() { return std::tie(loss, rows); }
};

/// Called at each place of each step, on the thread of the program or of the
/// replica.
using iteration_hook = std::function<void(place, std::uint64_t step)>;

/// A loop with two models and two optimizers, of which one has its own slots.
/// Its second sum depends on the first update. An epoch has seven steps, of
/// which the last one has 8 rows, and the others 32.
loop_outcome run_loop(const strategy& on, const iteration_hook& at) {
  const auto scope = on.scope();
  auto first = small_model();
  auto second = small_model();
  optimizer second_optimizer{sgd{.learning_rate = 0.01f, .momentum = 0.9f}};
  const auto gradients_of = [](const model& of, const batch& mine) {
    tape t;
    const auto loss =
      models::cross_entropy(of(mine.inputs, {.training = true}), mine.labels)
      / mine.global_rows;
    return std::pair{loss.detach(), t.gradient(loss, of.variables())};
  };
  loop_outcome out;
  std::uint64_t step = 0;
  const auto batches = on.distribute(digits_200().shuffle().batch(32));
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& each : batches) {
      at(place::before_run, step);
      const auto results = on.run(
        [&](replica_context& self, const batch& mine) {
          auto [loss, gradients] = gradients_of(first, mine);
          at(place::before_all_reduce, step);
          const auto sums = self.all_reduce(sum, gradients);
          at(place::before_apply, step);
          first.optimizer().apply(sums, first.variables());
          at(place::between_applies, step);
          // The second model follows the first one.
          tensors distances;
          for (std::size_t i = 0; i < sums.size(); ++i)
            distances.push_back(second.variables()[i].value().detach()
                                - first.variables()[i].value().detach());
          const auto mean_distances = self.all_reduce(mean, distances);
          at(place::before_second_apply, step);
          second_optimizer.apply(mean_distances, second.variables());
          at(place::at_the_end_of_the_function, step);
          return step_values{loss, double(mine.rows())};
        },
        each);
      at(place::before_reduce, step);
      const auto of_loss =
        on.run([](const step_values& x) { return x.loss; }, results);
      at(place::in_reduce, step);
      out.losses.push_back(on.reduce(sum, of_loss, {0}).item<float>());
      out.row_counts.push_back(on.reduce(sum, results.map(&step_values::rows)));
      ++step;
    }
  out.weights = {first.weights_sha256(), second.weights_sha256()};
  out.first_updates = first.optimizer().steps();
  out.second_updates = second_optimizer.steps();
  return out;
}

struct lost_worker {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  place where = place::before_run;
};

/// Thrown by a worker that is lost, so that it sends nothing more.
/// Cuts off a worker when its first replica contributes to a reduce.
class cut_in_reduce final : public fault_injector {
public:
  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t) override {
    auto* on = victim.load();
    if (on && kind == message_kind::contribution
        && sender == replica_id(on->local_replica_ids().front())
        && victim.compare_exchange_strong(on, nullptr)) {
      cut_off(*on);
      was_cut = true;
    }
    return {};
  }

  std::atomic<const strategy*> victim = nullptr; ///< Set before its reduce.
  std::atomic<bool> was_cut = false;
};

/// Runs the loop, loses workers, and expects the undisturbed loop_outcome in
/// the others.
void expect_recovery(std::uint32_t workers,
                     const std::vector<lost_worker>& losses,
                     multi_worker_options options = {}) {
  const auto faults = std::make_shared<cut_in_reduce>();
  options.faults = faults;
  std::vector<loop_outcome> found(workers);
  std::vector<std::atomic<bool>> is_cut(losses.size());
  const auto thrown =
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      found[w] = run_loop(on, [&](place where, std::uint64_t step) {
        for (std::size_t i = 0; i < losses.size(); ++i) {
          const auto& loss = losses[i];
          if (loss.worker != w || loss.step != step || loss.where != where)
            continue;
          is_cut[i] = true;
          if (where == place::in_reduce) {
            faults->victim = &on;
          } else {
            cut_off(on);
            throw end_of_worker{};
          }
        }
      });
    });
  const auto replicas =
    workers * static_cast<std::uint32_t>(options.devices.size());
  const auto expected = run_loop(turns(replicas), [](place, auto) {});
  for (std::uint32_t w = 0; w < workers; ++w) {
    const bool is_lost = std::ranges::any_of(
      losses, [w](const lost_worker& x) { return x.worker == w; });
    SCOPED_TRACE("worker " + std::to_string(w));
    const auto text = exception_text(thrown[w]);
    EXPECT_EQ(text.empty(), !is_lost) << text;
    if (!is_lost && text.empty())
      expect_equal(found[w], expected);
  }
  for (const auto& one : is_cut)
    EXPECT_TRUE(one);
  EXPECT_EQ(faults->was_cut,
            std::ranges::any_of(losses, [](const lost_worker& x) {
              return x.where == place::in_reduce;
            }));
}

class LoopRecovery : public ::testing::TestWithParam<place> {};

TEST_P(LoopRecovery, GivesTheUndisturbedResultWhicheverOfThreeWorkersIsLost) {
  for (const std::uint32_t lost : {0, 1, 2})
    expect_recovery(3, {{lost, 6, GetParam()}});
}

TEST_P(LoopRecovery, InTheFirstStepInWhichSlotsAreMade) {
  expect_recovery(3, {{1, 0, GetParam()}});
}

TEST_P(LoopRecovery, OfFourWorkersTwoAreLostOneAfterTheOther) {
  expect_recovery(4, {{0, 3, GetParam()}, {2, 8, place::before_second_apply}});
}

TEST_P(LoopRecovery, OfTwoReplicasInEachProcess) {
  multi_worker_options options;
  options.devices = {"cpu:0", "cpu:1"};
  expect_recovery(3, {{1, 5, GetParam()}}, options);
}

INSTANTIATE_TEST_SUITE_P(All, LoopRecovery, ::testing::ValuesIn(all_places));

/// Group steps begin with 0 in each view; a step of the loop has several.
TEST(LoopRecoveryCases, AReplicaWhoseActorEndsIsMadeAgain) {
  for (const std::uint32_t victim : {0, 1}) {
    const auto faults =
      std::make_shared<failing_reports>(victim, step_set{0, 5, 20});
    multi_worker_options options;
    options.faults = faults;
    std::vector<loop_outcome> found(2);
    const auto thrown =
      run_on_cluster(2, options, [&](const strategy& on, std::uint32_t w) {
        found[w] = run_loop(on, [](place, auto) {});
      });
    EXPECT_EQ(faults->ends, 3);
    const auto expected = run_loop(turns(2), [](place, auto) {});
    for (std::uint32_t w = 0; w < 2; ++w) {
      EXPECT_EQ(exception_text(thrown[w]), "");
      expect_equal(found[w], expected);
    }
  }
}

/// Neither worker knows whether the other one is dead.
TEST(LoopRecoveryCases, A24OneOfTwoWithoutEvidenceOfItsDeathEndsWithAnError) {
  const auto begin = std::chrono::steady_clock::now();
  const auto thrown =
    run_on_cluster(2, {}, [](const strategy& on, std::uint32_t w) {
      on.run([&](replica_context& self) {
        const auto ones = tensor::full({2}, 1);
        self.all_reduce(sum, ones);
        if (w == 1) {
          cut_off(on);
          throw end_of_worker{};
        }
        self.all_reduce(sum, ones);
      });
    });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes{1});
  const auto text = exception_text(thrown[0]);
  EXPECT_NE(text.find("worker 1 was lost in step 0"), text.npos) << text;
}

/// Runs three workers, of which worker 1 is lost after the first step.
/// @returns the errors of the others.
template <class F>
std::vector<std::string> errors_after_loss(const F& between) {
  auto thrown = run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
    between(on, [&] {
      if (w == 1) {
        cut_off(on);
        throw end_of_worker{};
      }
    });
  });
  EXPECT_NE(exception_text(thrown[1]), "");
  return {exception_text(thrown[0]), exception_text(thrown[2])};
}

TEST(LoopRecoveryCases, NamesTheCallAndTheReplicaOfALargeResultThatIsLost) {
  const auto errors = errors_after_loss([](const strategy& on, auto&& lose) {
    const auto large = on.run([](replica_context& self) {
      return tensor::full({1 << 18}, self.replica_id());
    });
    lose();
    on.reduce(sum, large);
  });
  for (const auto& text : errors)
    EXPECT_NE(text.find("reduce: the result of replica 1 in the 1. call of run "
                        "is lost with its process: only results of at most "
                        "1024 KiB are sent"),
              text.npos)
      << text;
}

struct opaque {
  std::shared_ptr<int> value;
};

TEST(LoopRecoveryCases, NamesTheCallAndTheReplicaOfAnotherKindOfResult) {
  const auto errors = errors_after_loss([](const strategy& on, auto&& lose) {
    const auto results = on.run([] { return opaque{}; });
    lose();
    on.run([](const opaque&) {}, results);
  });
  for (const auto& text : errors)
    EXPECT_NE(
      text.find("run: the result of replica 1 in the 1. call of run is lost "
                "with its process: only numbers, strings, tensors"),
      text.npos)
      << text;
}

TEST(LoopRecoveryCases, ABatchReadBeforeTheLossHasTheRowsOfItsReplica) {
  std::vector<std::vector<float>> found(3);
  const auto labels_of = [](const strategy& on, auto&& lose) {
    const auto batches = on.distribute(uneven_batches());
    auto steps = batches.iterate({2, 11});
    auto batch = *steps.next();
    batch = *steps.next(); // of 8 rows
    lose();
    const auto labels =
      on.run([](const troupe::batch& mine) { return mine.labels; }, batch);
    const auto all = on.gather(labels, 0);
    const auto numbers = all.template data<std::int32_t>();
    EXPECT_FALSE(steps.next());
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  for (const auto& text : errors_after_loss([&](const strategy&on, auto&&lose) {
         const auto process = on.worker();
         found[process] = labels_of(on, lose);
       }))
    EXPECT_EQ(text, "");
  const auto expected = labels_of(turns(3), [] {});
  EXPECT_EQ(expected.size(), 8u);
  EXPECT_EQ(found[0], expected);
  EXPECT_EQ(found[2], expected);
}

/// An exception of the function is not a loss. It undoes the step everywhere.
TEST(LoopRecoveryCases, AnExceptionUndoesTheStepAndTheLoopCanGoOn) {
  const auto run = [](const strategy& on, bool fails) {
    const auto scope = on.scope();
    auto it = small_model();
    optimizer own{sgd{.learning_rate = 0.1f, .momentum = 0.9f}};
    const auto step = [&](bool throws) {
      on.run([&](replica_context& self) {
        tensors ones;
        for (const auto& x : it.variables())
          ones.push_back(tensor::full(x.dims(), 1));
        ones = self.all_reduce(sum, ones);
        it.optimizer().apply(ones, it.variables());
        own.apply(ones, it.variables());
        self.barrier(0);
        if (throws && self.replica_id() == 1)
          throw end_of_worker{};
      });
    };
    for (int i = 0; i < 3; ++i) {
      if (fails) {
        EXPECT_ANY_THROW(step(true));
      }
      step(false);
    }
    return it.weights_sha256() + " " + std::to_string(it.optimizer().steps())
           + " " + std::to_string(own.steps());
  };
  const auto expected = run(turns(2), false);
  expect_nothing_thrown(run_on_cluster(2, {}, [&](const strategy& on, auto) {
    EXPECT_EQ(run(on, true), expected);
  }));
}

} // namespace

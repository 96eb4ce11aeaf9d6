#include "troupe/tests/support/scratch.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace {

using namespace troupe;
using namespace troupe::test;

TEST(MultiWorkerEnd, StopOnOneWorkerEndsAllAtTheSameStep) {
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> steps(3);
  all_workers(3, 1, [&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto it = small_model();
    fit_options options{.epochs = 3, .stop = w == 1 ? &stop : nullptr};
    if (w == 1)
      options.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (x.step == 15)
          stop = true;
      }});
    EXPECT_EQ(it.fit(uneven_batches(), options).end, fit_end::interrupted);
    steps[w] = it.steps();
    EXPECT_TRUE(it.interrupted());
  });
  EXPECT_GE(steps[0], 16u);
  EXPECT_LE(steps[0], 15 + 2 * default_step_window);
  EXPECT_EQ(steps[1], steps[0]);
  EXPECT_EQ(steps[2], steps[0]);
}

TEST(MultiWorkerEnd, StopEndsAnEpochThatWasGrantedCompletely) {
  for (std::uint64_t at = 0; at < 13; ++at) {
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> steps(2);
    all_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options options{.epochs = 3, .stop = w == 0 ? &stop : nullptr};
      if (w == 0)
        options.callbacks.push_back({.on_step = [&](const step_record& x) {
          if (x.step == at)
            stop = true;
        }});
      EXPECT_EQ(it.fit(uneven_batches(), options).end, fit_end::interrupted);
      steps[w] = it.steps();
    });
    EXPECT_EQ(steps[1], steps[0]);
  }
}

TEST(MultiWorkerEnd, CallbackExceptionReachesAllWorkers) {
  for (const bool at_end : {false, true}) {
    const auto thrown = on_workers(2, 1, [&](const strategy& on, auto w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options options{.epochs = 3};
      const auto fail = [w] {
        if (w == 1)
          throw std::runtime_error("enough");
      };
      callback mine;
      if (at_end)
        mine.on_epoch_end = [&](const epoch_record&) { fail(); };
      else
        mine.on_step = [&](const step_record&) { fail(); };
      options.callbacks.push_back(mine);
      it.fit(uneven_batches(), options);
    });
    EXPECT_EQ(said_in(thrown[1]), "enough");
    EXPECT_EQ(said_in(thrown[0]), "worker 1 ended the fit: enough");
  }
}

TEST(MultiWorkerEnd, WorkerWithADifferentFitIsNamed) {
  const auto said =
    [](const std::function<void(std::uint32_t, model&, data::dataset&,
                                fit_options&)>& change) {
      const auto thrown = on_workers(3, 1, [&](const strategy& on, auto w) {
        const auto scope = on.scope();
        auto it = small_model();
        auto data = uneven_batches();
        fit_options options{.epochs = 2};
        change(w, it, data, options);
        it.fit(data, options);
      });
      EXPECT_EQ(said_in(thrown[0]), said_in(thrown[1]));
      EXPECT_EQ(said_in(thrown[0]), said_in(thrown[2]));
      return said_in(thrown[0]);
    };
  const std::string rest =
    "; all workers must train the same model on the same "
    "data with the same options";
  EXPECT_EQ(said([](auto w, auto&, auto&, auto& options) {
              if (w == 2)
                options.epochs = 3;
            }),
            "worker 2 has \"epochs: 3\", but worker 0 has \"epochs: 2\""
              + rest);
  EXPECT_EQ(said([](auto w, auto&, auto& data, auto&) {
              if (w == 1)
                data = digits_200().take(32).batch(16);
            }),
            "worker 1 has \"batches in a pass: 2\", but worker 0 has "
            "\"batches in a pass: 13\""
              + rest);
  EXPECT_NE(said([](auto w, auto&, auto& data, auto&) {
              if (w == 1)
                data = digits_200().batch(16);
            }).find("worker 1 has \"hash of the next batch: "),
            std::string::npos);
  EXPECT_EQ(said([](auto w, auto& it, auto&, auto&) {
              if (w == 2)
                it.variables()[0].value().template mutable_data<float>()[0] = 7;
            }),
            "the copies of the variable \"dense_1/kernel\" differ: replica 2 "
            "has other values than replica 0; all_reduce the gradients before "
            "an optimizer applies them, so that all replicas make the same "
            "update, or, if a step failed before, load the last saved file");
}

TEST(MultiWorkerEnd, DifferentCallsAreReported) {
  for (const auto& part : {tensor::zeros({0}, dtype::uint8), tensor::zeros({3}),
                           tensor::zeros({1}, dtype::uint8)}) {
    const auto thrown = on_workers(2, 1, [&](const strategy& on, auto w) {
      if (w == 1)
        run_once(on.state(),
                 [&](replica_context& self) { self.all_parts(part); });
      else
        tell_all(on.state(), "this worker saves");
    });
    EXPECT_NE(said_in(thrown[0]).find("same calls in the same order"),
              std::string::npos)
      << said_in(thrown[0]);
  }
}

TEST(MultiWorkerEnd, ThrownNonExceptionReachesAllWorkers) {
  const auto thrown = on_workers(2, 1, [](const strategy& on, auto) {
    on_leader(on.state(), [] { throw 7; });
  });
  EXPECT_THROW(std::rethrow_exception(thrown[0]), int);
  EXPECT_NE(said_in(thrown[1]).find("no std::exception"), std::string::npos);
}

class MultiWorkerFiles : public scratch_test {};

TEST_F(MultiWorkerFiles, ExistWhenSaveReturnsOnAnyWorker) {
  const auto undisturbed = weights_after_fit(turns(3));
  all_workers(3, 1, [&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto it = small_model();
    const auto file = folder / "one";
    it.fit(uneven_batches(), {.epochs = 2, .max_steps = 17});
    // Only the folder of the first worker is writable.
    it.save(w == 0 ? file : folder / "none" / "two");
    EXPECT_TRUE(std::filesystem::exists(file));
    auto again = model::load(file);
    again.fit(uneven_batches(), {.epochs = 2, .resume = true});
    EXPECT_EQ(again.weights_sha256(), undisturbed);
  });
}

TEST_F(MultiWorkerFiles, WriteErrorReachesAllWorkers) {
  const auto thrown = on_workers(2, 1, [&](const strategy& on, auto) {
    const auto scope = on.scope();
    small_model().save(folder / "none" / "one");
  });
  EXPECT_NE(said_in(thrown[0]).find("none/one"), std::string::npos);
  EXPECT_EQ(said_in(thrown[1]), said_in(thrown[0]) + " (reported by worker 0)");
}

} // namespace

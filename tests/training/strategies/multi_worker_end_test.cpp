#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/training_loop.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace {

using namespace troupe;
using namespace troupe::test;

TEST(MultiWorkerEnd, StopOnOneWorkerEndsAllAtTheSameStep) {
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> steps(3);
  expect_success_on_workers(3, 1, [&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto model = small_model();
    fit_options options{.epochs = 3, .stop = w == 1 ? &stop : nullptr};
    if (w == 1)
      options.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (x.step == 15)
          stop = true;
      }});
    EXPECT_EQ(model.fit(uneven_batches(), options).end, fit_end::interrupted);
    steps[w] = model.steps();
    EXPECT_TRUE(model.interrupted());
  });
  EXPECT_GE(steps[0], 16u);
  EXPECT_LE(steps[0], 15 + 2 * default_step_window);
  EXPECT_EQ(steps[1], steps[0]);
  EXPECT_EQ(steps[2], steps[0]);
}

TEST(MultiWorkerEnd, StopEndsAnEpochThatWasGrantedCompletely) {
  for (std::uint64_t stop_step = 0; stop_step < 13; ++stop_step) {
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> steps(2);
    expect_success_on_workers(2, 1, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto model = small_model();
      fit_options options{.epochs = 3, .stop = w == 0 ? &stop : nullptr};
      if (w == 0)
        options.callbacks.push_back({.on_step = [&](const step_record& x) {
          if (x.step == stop_step)
            stop = true;
        }});
      EXPECT_EQ(model.fit(uneven_batches(), options).end, fit_end::interrupted);
      steps[w] = model.steps();
    });
    EXPECT_EQ(steps[1], steps[0]);
  }
}

TEST(MultiWorkerEnd, CallbackExceptionReachesAllWorkers) {
  for (const bool at_end : {false, true}) {
    const auto thrown = run_on_workers(2, 1, [&](const strategy& on, auto w) {
      const auto scope = on.scope();
      auto model = small_model();
      fit_options options{.epochs = 3};
      const auto fail = [w] {
        if (w == 1)
          throw std::runtime_error("enough");
      };
      callback throwing_callback;
      if (at_end)
        throwing_callback.on_epoch_end = [&](const epoch_record&) { fail(); };
      else
        throwing_callback.on_step = [&](const step_record&) { fail(); };
      options.callbacks.push_back(throwing_callback);
      model.fit(uneven_batches(), options);
    });
    EXPECT_EQ(exception_text(thrown[1]), "enough");
    EXPECT_EQ(exception_text(thrown[0]), "worker 1 ended the fit: enough");
  }
}

TEST(MultiWorkerEnd, WorkerWithADifferentFitIsNamed) {
  const auto error_of =
    [](const std::function<void(std::uint32_t, model&, data::dataset&,
                                fit_options&)>& change) {
      const auto thrown = run_on_workers(3, 1, [&](const strategy& on, auto w) {
        const auto scope = on.scope();
        auto it = small_model();
        auto data = uneven_batches();
        fit_options options{.epochs = 2};
        change(w, it, data, options);
        it.fit(data, options);
      });
      EXPECT_EQ(exception_text(thrown[0]), exception_text(thrown[1]));
      EXPECT_EQ(exception_text(thrown[0]), exception_text(thrown[2]));
      return exception_text(thrown[0]);
    };
  const std::string rest =
    "; all workers must train the same model on the same "
    "data with the same options";
  EXPECT_EQ(error_of([](auto w, auto&, auto&, auto& options) {
              if (w == 2)
                options.epochs = 3;
            }),
            "worker 2 has \"epochs: 3\", but worker 0 has \"epochs: 2\""
              + rest);
  EXPECT_EQ(error_of([](auto w, auto&, auto& data, auto&) {
              if (w == 1)
                data = digits_200().take(32).batch(16);
            }),
            "worker 1 has \"batches per epoch: 2\", but worker 0 has "
            "\"batches per epoch: 13\""
              + rest);
  EXPECT_NE(error_of([](auto w, auto&, auto& data, auto&) {
              if (w == 1)
                data = digits_200().batch(16);
            }).find("worker 1 has \"hash of the first batch: "),
            std::string::npos);
  EXPECT_EQ(error_of([](auto w, auto& it, auto&, auto&) {
              if (w == 2)
                it.variables()[0].value().template mutable_data<float>()[0] = 7;
            }),
            "the copies of the variable \"dense_1/kernel\" differ: replica 2 "
            "has other values than replica 0; the causes can be gradients that "
            "were not reduced by all_reduce before an optimizer applied them, "
            "another learning rate or optimizer on one of the workers, or a "
            "variable that the program has written on some of them; if a step "
            "failed before, load the last saved file");
}

TEST(MultiWorkerEnd, DifferentCallsAreReported) {
  for (const auto& contribution :
       {tensor::zeros({0}, dtype::uint8), tensor::zeros({3}),
        tensor::zeros({1}, dtype::uint8)}) {
    const auto thrown =
      run_on_workers(2, 1, [&](const strategy& strategy, auto w) {
        const std::string call = "a gather";
        if (w == 1) {
          strategy.state()->current_call.name = call;
          run_one_step(strategy.state(), [&](replica_context& self) {
            self.all_gather_list(contribution);
          });
        } else {
          all_gather_text(strategy.state(), "this worker saves",
                          {.call = call});
        }
      });
    EXPECT_NE(exception_text(thrown[0]).find("same calls in the same order"),
              std::string::npos)
      << exception_text(thrown[0]);
  }
}

/// What a worker calls when the others call something else.
struct other_call {
  std::string name; ///< In the error.
  std::function<void(const strategy&, model&, const std::filesystem::path&)>
    make;
};

class DifferentCalls : public scratch_test {
protected:
  static std::vector<other_call> all() {
    const auto batches = uneven_batches();
    return {
      {"fit", [=](auto&, auto& it, auto&) { it.fit(batches); }},
      {"evaluate", [=](auto&, auto& it, auto&) { it.evaluate(batches); }},
      {"save", [](auto&, auto& it, auto& file) { it.save(file); }},
      {"run", [](auto& on, auto&, auto&) { on.run([] {}); }},
      {"reduce",
       [](auto& on, auto&, auto&) {
         on.reduce(sum,
                   on.values_from([](auto) { return tensor::zeros({1}); }));
       }},
      {"gather",
       [](auto& on, auto&, auto&) {
         on.gather(on.values_from([](auto) { return tensor::zeros({1}); }), 0);
       }},
      {"loop",
       [=](auto& on, auto&, auto&) {
         for (auto& step : on.loop("train", on.distribute(batches)))
           (void)step;
       }},
    };
  }
};

/// Each pair of calls is one sentence on both workers, and nothing is saved.
TEST_F(DifferentCalls, AreNamedWithTheirWorkers) {
  const auto calls = all();
  const auto file = folder / "model";
  for (const auto& first : calls)
    for (const auto& second : calls) {
      if (first.name == second.name)
        continue;
      const auto thrown = run_on_workers(2, 1, [&](const strategy& on, auto w) {
        const auto scope = on.scope();
        auto it = small_model();
        (w == 0 ? first : second).make(on, it, file);
      });
      for (const auto& x : thrown)
        EXPECT_EQ(exception_text(x),
                  "worker 0 called " + first.name + ", but worker 1 called "
                    + second.name
                    + "; all workers must make the same calls in the same "
                      "order");
      EXPECT_FALSE(std::filesystem::exists(file));
    }
}

/// A call that only one worker makes shifts the numbers of its later calls.
TEST_F(DifferentCalls, OfOneNameAreToldApartByTheirNumbers) {
  const auto thrown = run_on_workers(2, 1, [&](const strategy& on, auto w) {
    const auto scope = on.scope();
    const auto it = small_model();
    on.state()->calls = w;
    it.save(folder / "model");
  });
  for (const auto& x : thrown)
    EXPECT_EQ(exception_text(x),
              "worker 0 called save as call 0 of the job, but worker 1 called "
              "save as call 1 of the job; all workers must make the same calls "
              "in the same order");
}

/// The exception is thrown before the callbacks of the others save or evaluate.
TEST_F(DifferentCalls, OfCallbacksReportTheExceptionOfOne) {
  for (const bool saves : {false, true})
    for (const std::uint32_t failing : {0, 1, 2}) {
      const auto thrown = run_on_workers(3, 1, [&](const strategy& on, auto w) {
        const auto scope = on.scope();
        auto it = small_model();
        fit_options how{.epochs = 3};
        how.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
          if (x.epoch == 2 && w == failing)
            throw std::runtime_error("the disk is full");
          if (saves)
            it.save(folder / "model");
          else
            it.evaluate(uneven_batches());
        }});
        it.fit(uneven_batches(), how);
      });
      for (std::uint32_t w = 0; w < 3; ++w) {
        const auto text = exception_text(thrown[w]);
        if (w == failing)
          EXPECT_EQ(text, "the disk is full");
        else
          EXPECT_NE(text.find("a callback of worker " + std::to_string(failing)
                              + " has thrown: the disk is full; worker "),
                    text.npos)
            << text;
      }
    }
}

TEST(MultiWorkerEnd, ThrownNonExceptionReachesAllWorkers) {
  const auto thrown = run_on_workers(2, 1, [](const strategy& on, auto) {
    run_on_chief(on.state(), [] { throw 7; });
  });
  EXPECT_THROW(std::rethrow_exception(thrown[0]), int);
  EXPECT_NE(exception_text(thrown[1]).find("no std::exception"),
            std::string::npos);
}

class MultiWorkerFiles : public scratch_test {};

TEST_F(MultiWorkerFiles, ExistWhenSaveReturnsOnAnyWorker) {
  const auto undisturbed = weights_after_fit(turns(3));
  expect_success_on_workers(3, 1, [&](const strategy& on, std::uint32_t w) {
    const auto scope = on.scope();
    auto it = small_model();
    const auto file = folder / "one";
    it.fit(uneven_batches(), {.epochs = 2, .max_steps = 17});
    // Only worker 0 writes a file, so only its path names an existing folder.
    it.save(w == 0 ? file : folder / "none" / "two");
    EXPECT_TRUE(std::filesystem::exists(file));
    auto again = model::load(file);
    again.fit(uneven_batches(), {.epochs = 2, .resume = true});
    EXPECT_EQ(again.weights_sha256(), undisturbed);
  });
}

TEST_F(MultiWorkerFiles, WriteErrorReachesAllWorkers) {
  const auto thrown = run_on_workers(2, 1, [&](const strategy& on, auto) {
    const auto scope = on.scope();
    small_model().save(folder / "none" / "one");
  });
  EXPECT_NE(exception_text(thrown[0]).find("none/one"), std::string::npos);
  EXPECT_EQ(exception_text(thrown[1]),
            exception_text(thrown[0]) + " (reported by worker 0)");
}

} // namespace

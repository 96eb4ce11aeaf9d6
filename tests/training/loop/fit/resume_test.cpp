#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace {

using namespace troupe;

class Resume : public scratch_test {
protected:
  static model fresh(const update_rule& rule) {
    return model{small_net(true), rule, {.seed = 5}};
  }

  static data::dataset batches() {
    // An epoch has 13 batches.
    return digits_200().shuffle(data::whole_dataset, 7).batch(16);
  }

  static fit_options options() {
    return {.epochs = 3,
            .validation = digits_200().take(50).batch(25),
            .early_stopping =
              early_stopping{.monitor = monitored_metric::loss, .patience = 2},
            .schedule = cosine_schedule{.learning_rate = 1e-2f, .steps = 39}};
  }
};

TEST_F(Resume, WeightsEqualAnUninterruptedFitForEveryStopPosition) {
  for (const std::uint32_t replicas : {1, 2, 3})
    for (const std::uint64_t stop_step : {1, 5, 13, 14, 26, 38}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, interrupted after "
                   + std::to_string(stop_step) + " steps");
      const auto strategy = turns(replicas);
      const auto scope = strategy.scope();
      auto whole = fresh(adam{});
      const auto undisturbed = whole.fit(batches(), options());

      auto interrupted = fresh(adam{});
      auto cut = options();
      cut.max_steps = stop_step;
      EXPECT_EQ(interrupted.fit(batches(), cut).end, fit_end::max_steps);
      EXPECT_TRUE(interrupted.interrupted());
      EXPECT_EQ(interrupted.steps(), stop_step);
      interrupted.save(folder / "a");

      auto loaded = model::load(folder / "a");
      auto on = options();
      on.resume = true;
      const auto resumed = loaded.fit(batches(), on);
      EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256());
      EXPECT_FALSE(loaded.interrupted());
      ASSERT_EQ(resumed.epochs.size(), undisturbed.epochs.size());
      for (std::size_t i = 0; i < resumed.epochs.size(); ++i) {
        EXPECT_EQ(resumed.epochs[i].loss, undisturbed.epochs[i].loss);
        EXPECT_EQ(resumed.epochs[i].validation_loss,
                  undisturbed.epochs[i].validation_loss);
        EXPECT_EQ(resumed.epochs[i].examples, 200u);
      }
    }
}

/// Returns the error of a resumed fit over other data than `batches`.
std::string error_of_resume(const std::filesystem::path& file,
                            const data::dataset& other,
                            const fit_options& options) {
  auto loaded = model::load(file);
  return test::text_of([&] { loaded.fit(other, options); });
}

TEST_F(Resume, OtherDataIsRejected) {
  auto cut = fresh(adam{});
  cut.fit(batches(), {.epochs = 3, .max_steps = 5});
  cut.save(folder / "a");
  const fit_options again{.epochs = 3, .resume = true};
  const auto same = "; resume with the same data in the same order";
  const auto inverted = [](const batch& x) {
    auto out = x;
    out.labels = x.labels.clone();
    for (auto& one : out.labels.mutable_data<std::int32_t>())
      one = 9 - one;
    return out;
  };
  const auto shuffled = [](const data::dataset& from, std::uint64_t seed) {
    return from.shuffle(data::whole_dataset, seed).batch(16);
  };
  for (const auto& other :
       {shuffled(digits_200().map(inverted), 7), shuffled(digits_200(), 8)}) {
    const auto text = error_of_resume(folder / "a", other, again);
    EXPECT_TRUE(text.starts_with("the first batch of this dataset has other "
                                 "values (16 examples, "))
      << text;
    EXPECT_TRUE(text.ends_with(same)) << text;
  }
  EXPECT_EQ(
    error_of_resume(folder / "a", shuffled(digits_200().take(199), 7), again),
    "the interrupted fit had 200 examples in an epoch, but this "
    "dataset has 199"
      + std::string{same});
  auto loaded = model::load(folder / "a");
  EXPECT_EQ(loaded.fit(batches(), again).end, fit_end::done);
}

TEST_F(Resume, SecondFitResumesWithItsOwnEpochs) {
  auto whole = fresh(adam{});
  whole.fit(batches(), {.epochs = 2});
  const auto undisturbed = whole.fit(batches(), {.epochs = 2});
  EXPECT_EQ(undisturbed.epochs.size(), 2u);
  EXPECT_EQ(undisturbed.last().epoch, 2u);
  for (const std::uint64_t stop_step : {1, 13, 17}) {
    auto interrupted = fresh(adam{});
    interrupted.fit(batches(), {.epochs = 2});
    interrupted.save(folder / "between");
    interrupted = model::load(folder / "between");
    interrupted.fit(batches(), {.epochs = 2, .max_steps = stop_step});
    EXPECT_EQ(interrupted.epochs_done(), stop_step / 13);
    interrupted.save(folder / "a");
    auto loaded = model::load(folder / "a");
    EXPECT_THROW(
      loaded.fit(batches(), {.epochs = 2, .first_epoch = 0, .resume = true}),
      std::invalid_argument);
    const auto resumed =
      loaded.fit(batches(), {.epochs = 2, .first_epoch = 2, .resume = true});
    EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256());
    EXPECT_EQ(resumed.epochs.size(), 2u);
    EXPECT_EQ(resumed.last().loss, undisturbed.last().loss);
  }
}

TEST_F(Resume, WorksForEveryOptimizerAndRepeatedly) {
  for (const update_rule& rule :
       {update_rule{sgd{}}, update_rule{sgd{.momentum = 0.9f}},
        update_rule{adamw{}}, update_rule{adagrad{}},
        update_rule{ftrl{.beta = 1}}}) {
    auto whole = fresh(rule);
    whole.fit(batches(), options());
    auto interrupted = fresh(rule);
    auto cut = options();
    cut.max_steps = 9;
    for (int i = 0; i < 3; ++i) {
      interrupted.fit(batches(), cut);
      interrupted.save(folder / "a");
      interrupted = model::load(folder / "a");
      cut.resume = true;
    }
    cut.max_steps = 0;
    interrupted.fit(batches(), cut);
    EXPECT_EQ(interrupted.weights_sha256(), whole.weights_sha256());
  }
}

TEST_F(Resume, KeepsTheBestWeightsAcrossAnInterruption) {
  auto best_first = options();
  best_first.early_stopping = early_stopping{
    .monitor = monitored_metric::loss, .patience = 2, .min_delta = 1e9};
  auto whole = fresh(adam{});
  EXPECT_EQ(whole.fit(batches(), best_first).end, fit_end::stopped_early);
  auto part = fresh(adam{});
  auto cut = best_first;
  cut.max_steps = 20;
  part.fit(batches(), cut);
  part.save(folder / "a");
  auto loaded = model::load(folder / "a");
  best_first.resume = true;
  const auto seen = loaded.fit(batches(), best_first);
  EXPECT_EQ(seen.end, fit_end::stopped_early);
  EXPECT_EQ(seen.best_epoch, 1u);
  EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256());
}

TEST_F(Resume, ContinuesFromAFileThatACallbackSaved) {
  auto whole = fresh(adam{});
  auto saving = options();
  saving.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
    whole.save(folder / std::to_string(x.epoch));
  }});
  whole.fit(batches(), saving);
  EXPECT_FALSE(whole.interrupted());
  for (const auto* file : {"1", "2"}) {
    auto loaded = model::load(folder / file);
    auto on = options();
    on.resume = true;
    loaded.fit(batches(), on);
    EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256()) << file;
  }
}

TEST_F(Resume, EarlyStoppingInTheLastStepStaysInForce) {
  auto hopeless = options();
  hopeless.epochs = 5;
  hopeless.early_stopping = early_stopping{
    .monitor = monitored_metric::loss, .patience = 2, .min_delta = 1e9};
  auto whole = fresh(adam{});
  EXPECT_EQ(whole.fit(batches(), hopeless).end, fit_end::stopped_early);
  EXPECT_EQ(whole.steps(), 39u);
  hopeless.max_steps = 39;
  hopeless.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
    if (x.epoch == 3)
      whole.save(folder / "a");
  }});
  const auto undisturbed = whole.weights_sha256();
  whole = fresh(adam{});
  const auto seen = whole.fit(batches(), hopeless);
  EXPECT_EQ(seen.end, fit_end::stopped_early);
  EXPECT_EQ(seen.best_epoch, 1u);
  EXPECT_FALSE(whole.interrupted());
  EXPECT_EQ(whole.weights_sha256(), undisturbed);
  // Early stopping ended the fit after epoch 3. A fit that resumes from the
  // file saved at the end of epoch 3 stops early too, without a step.
  auto loaded = model::load(folder / "a");
  hopeless.callbacks.clear();
  hopeless.max_steps = 0;
  hopeless.resume = true;
  EXPECT_EQ(loaded.fit(batches(), hopeless).end, fit_end::stopped_early);
  EXPECT_EQ(loaded.steps(), 39u);
  EXPECT_EQ(loaded.weights_sha256(), undisturbed);
}

TEST_F(Resume, SkippedStepsAreCounted) {
  auto inputs = digits_200().examples(0, 200).inputs.clone();
  inputs.mutable_data<float>()[20 * 784] =
    std::numeric_limits<float>::infinity();
  const auto broken =
    data::dataset{inputs, digits_200().examples(0, 200).labels}.batch(16);
  const auto after = [&](std::uint64_t stop_at) {
    auto model = fresh(adam{});
    fit_options o{.epochs = 2, .on_nan = on_nan::skip};
    o.max_steps = stop_at;
    model.fit(broken, o);
    o.max_steps = 0;
    o.resume = true;
    if (model.interrupted())
      model.fit(broken, o);
    return model.weights_sha256();
  };
  EXPECT_EQ(after(7), after(0));
}

TEST_F(Resume, StopEndsTheFitBetweenTwoSteps) {
  std::atomic<bool> stop{false};
  auto model = fresh(adam{});
  fit_options asked;
  asked.epochs = 3;
  asked.stop = &stop;
  asked.callbacks.push_back({.on_step = [&](const step_record& x) {
    if (x.step == 6)
      stop = true;
  }});
  EXPECT_EQ(model.fit(batches(), asked).end, fit_end::interrupted);
  EXPECT_EQ(model.steps(), 7u);
  asked.stop = nullptr;
  asked.resume = true;
  EXPECT_EQ(model.fit(batches(), asked).end, fit_end::done);
  auto whole = fresh(adam{});
  whole.fit(batches(), {.epochs = 3});
  EXPECT_EQ(model.weights_sha256(), whole.weights_sha256());
}

TEST_F(Resume, StopInTheLastStepCompletesTheFit) {
  const std::atomic<bool> stop{true};
  auto it = fresh(adam{});
  const auto seen = it.fit(digits_200().batch(200), {.stop = &stop});
  EXPECT_EQ(seen.end, fit_end::done);
  EXPECT_FALSE(it.interrupted());
}

TEST_F(Resume, ACompleteFitTrainsOnAsALongerOne) {
  for (const std::uint32_t replicas : {1, 2}) {
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    const fit_options longer{.epochs = 4,
                             .validation = digits_200().take(50).batch(25)};
    auto whole = fresh(adam{});
    const auto expected = whole.fit(batches(), longer);
    auto cut = fresh(adam{});
    auto shorter = longer;
    shorter.epochs = 2;
    cut.fit(batches(), shorter);
    EXPECT_TRUE(cut.completed());
    EXPECT_FALSE(cut.interrupted());
    cut.save(folder / "a");
    auto loaded = model::load(folder / "a");
    EXPECT_TRUE(loaded.completed());
    EXPECT_EQ(loaded.epochs_done(), 2u);
    auto on = longer;
    on.resume = true;
    const auto found = loaded.fit(batches(), on);
    EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256());
    ASSERT_EQ(found.epochs.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(found.epochs[i].loss, expected.epochs[i].loss);
      EXPECT_EQ(found.epochs[i].validation_loss,
                expected.epochs[i].validation_loss);
    }
    cut.fit(batches(), on); // without a file
    EXPECT_EQ(cut.weights_sha256(), whole.weights_sha256());
  }
}

TEST_F(Resume, ACompleteFitWritesTheFileOfAnInterruptedOne) {
  for (const std::uint64_t stop_step : {1, 13, 14, 38}) {
    auto whole = fresh(adam{});
    whole.fit(batches(), {.epochs = 3});
    whole.save(folder / "whole");
    auto cut = fresh(adam{});
    cut.fit(batches(), {.epochs = 3, .max_steps = stop_step});
    cut.save(folder / "cut");
    auto loaded = model::load(folder / "cut");
    loaded.fit(batches(), {.epochs = 3, .resume = true});
    loaded.save(folder / "resumed");
    EXPECT_EQ(text_of("resumed"), text_of("whole"))
      << "interrupted after " << stop_step << " steps";
  }
}

TEST_F(Resume, ACompleteFitRejectsOtherData) {
  auto done = fresh(adam{});
  done.fit(batches(), {.epochs = 2});
  done.save(folder / "a");
  const fit_options more{.epochs = 3, .resume = true};
  const auto other = digits_200().shuffle(data::whole_dataset, 8).batch(16);
  const auto text = error_of_resume(folder / "a", other, more);
  EXPECT_TRUE(text.starts_with("the first batch of this dataset has other "
                               "values (16 examples, "))
    << text;
  EXPECT_EQ(test::text_of([&] { done.fit(other, more); }), text)
    << "without a file";
  EXPECT_EQ(error_of_resume(folder / "a", batches(), more), "no error");
}

TEST_F(Resume, ACompleteFitNeedsMoreEpochs) {
  auto it = fresh(adam{});
  it.fit(batches(), {.epochs = 2});
  try {
    it.fit(batches(), {.epochs = 2, .resume = true});
    ADD_FAILURE() << "no error";
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string{e.what()},
              "epochs: 2: the fit to resume has completed 2; give more, or fit "
              "without resume to begin a new one");
  }
}

TEST_F(Resume, AFitThatRestoredItsBestWeightsIsNotContinued) {
  auto it = fresh(sgd{.learning_rate = 0.5f, .momentum = 0.9f});
  fit_options early{.epochs = 8,
                    .validation = digits_200().take(50).batch(25),
                    .early_stopping = early_stopping{.patience = 20}};
  const auto found = it.fit(batches(), early);
  ASSERT_LT(found.best_epoch, 8u);
  EXPECT_FALSE(it.completed());
  early.epochs = 9;
  early.resume = true;
  EXPECT_THROW(it.fit(batches(), early), std::invalid_argument);
}

TEST_F(Resume, AContinuedFitKeepsItsBestWeights) {
  // The loss of training falls in each epoch.
  fit_options early{.epochs = 2,
                    .early_stopping = early_stopping{
                      .monitor = monitored_metric::loss, .patience = 20}};
  auto it = fresh(adam{});
  ASSERT_EQ(it.fit(batches(), early).best_epoch, 2u);
  EXPECT_TRUE(it.completed());
  const auto best = it.weights_sha256();
  it.save(folder / "a");
  it = model::load(folder / "a");
  early.epochs = 3;
  early.resume = true;
  // The third epoch is no improvement.
  early.early_stopping->min_delta = 1e6;
  EXPECT_EQ(it.fit(batches(), early).best_epoch, 2u);
  EXPECT_EQ(it.weights_sha256(), best);
}

/// Returns the number of steps in each file that `fit` has saved, in order.
std::vector<std::uint64_t> saved_steps(model& it, const data::dataset& data,
                                       fit_options options,
                                       const std::filesystem::path& file) {
  std::vector<std::uint64_t> out;
  options.save->file = file;
  // Before each step and after each epoch the file of the last save is seen.
  const auto look = [&] {
    if (!std::filesystem::exists(file))
      return;
    if (const auto steps = header_of(file).steps;
        out.empty() || out.back() != steps)
      out.push_back(steps);
  };
  options.callbacks = {{.on_epoch_end = [&](const epoch_record&) { look(); },
                        .on_step = [&](const step_record&) { look(); }}};
  it.fit(data, options);
  look();
  return out;
}

TEST_F(Resume, FitSavesAtMultiplesOfItsSteps) {
  // An epoch has 13 batches, and the end of the fit is not saved.
  using steps = std::vector<std::uint64_t>;
  for (const std::uint32_t replicas : {1, 2}) {
    SCOPED_TRACE(replicas);
    const auto strategy = turns(replicas);
    const auto scope = strategy.scope();
    auto whole = fresh(adam{});
    whole.fit(batches(), {.epochs = 3});
    const auto file = folder / ("saved" + std::to_string(replicas));
    auto by_steps = fresh(adam{});
    EXPECT_EQ(
      saved_steps(by_steps, batches(),
                  {.epochs = 3, .save = periodic_save{.file = {}, .steps = 10}},
                  file),
      (steps{10, 20, 30}));
    EXPECT_EQ(by_steps.weights_sha256(), whole.weights_sha256());
    auto resumed = model::load(file);
    EXPECT_TRUE(resumed.interrupted());
    resumed.fit(batches(), {.epochs = 3, .resume = true});
    EXPECT_EQ(resumed.weights_sha256(), whole.weights_sha256());
    auto by_epochs = fresh(adam{});
    EXPECT_EQ(
      saved_steps(by_epochs, batches(),
                  {.epochs = 3,
                   .save = periodic_save{.file = {}, .steps = 13, .epochs = 2}},
                  folder / ("epochs" + std::to_string(replicas))),
      (steps{13, 26}));
    // A resumed fit counts the steps before the interruption.
    auto cut = fresh(adam{});
    cut.fit(batches(), {.epochs = 3, .max_steps = 15});
    EXPECT_EQ(saved_steps(cut, batches(),
                          {.epochs = 3,
                           .save = periodic_save{.file = {}, .steps = 10},
                           .resume = true},
                          folder / ("cut" + std::to_string(replicas))),
              (steps{20, 30}));
  }
}

TEST_F(Resume, FitRefusesASaveThatNeverHappens) {
  auto it = fresh(adam{});
  const auto refused = [&](const periodic_save& save) {
    return test::text_of([&] { it.fit(batches(), {.save = save}); });
  };
  const auto file = folder / "m";
  EXPECT_EQ(refused({.file = file}),
            "save: \"" + file.string()
              + "\" would never be saved; give steps or epochs");
  EXPECT_EQ(refused({.file = {}, .steps = 5}),
            "save: the file has no name; give one");
  EXPECT_EQ(it.steps(), 0u);
}

TEST_F(Resume, FitGoesOnIfItCannotSave) {
  auto whole = fresh(adam{});
  whole.fit(batches());
  auto it = fresh(adam{});
  it.fit(batches(),
         {.save = periodic_save{.file = folder / "no" / "file", .steps = 5}});
  EXPECT_EQ(it.weights_sha256(), whole.weights_sha256());
}

TEST_F(Resume, TheSavedFitKeepsTheReplicaShares) {
  const auto two = turns(2);
  const auto scope = two.scope();
  auto whole = fresh(adam{});
  whole.fit(batches(), {.replica_shares = {3, 1}});
  auto cut = fresh(adam{});
  cut.fit(batches(), {.replica_shares = {3, 1}, .max_steps = 3});
  cut.save(folder / "a");
  for (const auto& [shares, text] :
       {std::pair{std::vector<std::uint32_t>{1, 3}, "replica_shares 1,3"},
        std::pair{std::vector<std::uint32_t>{}, "replica_shares equal"}}) {
    auto loaded = model::load(folder / "a");
    try {
      loaded.fit(batches(), {.replica_shares = shares, .resume = true});
      ADD_FAILURE() << "no error for " << text;
    } catch (const std::invalid_argument& e) {
      EXPECT_EQ(std::string{e.what()},
                std::string{text}
                  + ": the interrupted fit had the shares 3,1; resume with the "
                    "same shares");
    }
  }
  auto loaded = model::load(folder / "a");
  loaded.fit(batches(), {.replica_shares = {3, 1}, .resume = true});
  EXPECT_EQ(loaded.weights_sha256(), whole.weights_sha256());
}

TEST_F(Resume, OtherDataOrReplicasAreRejected) {
  {
    const auto two = turns(2);
    const auto scope = two.scope();
    auto network = fresh(adam{});
    network.fit(batches(), {.max_steps = 3});
    EXPECT_THROW(network.fit(digits_200().batch(20), {.resume = true}),
                 std::invalid_argument);
    network.fit(batches(), {.max_steps = 3});
    network.save(folder / "a");
  }
  auto alone = model::load(folder / "a");
  try {
    alone.fit(batches(), {.resume = true});
    ADD_FAILURE() << "the fit was resumed";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "the interrupted fit had 2 replicas, but this fit "
                           "has 1; resume with the same number, or with "
                           "accept_replicas if the weights may have other "
                           "bits");
  }
}

TEST_F(Resume, OtherReplicasCanBeAccepted) {
  {
    const auto two = turns(2);
    const auto scope = two.scope();
    auto network = fresh(adam{});
    network.fit(batches(), {.replica_shares = {3, 1}, .max_steps = 3});
    network.save(folder / "a");
  }
  const auto three = turns(3);
  const auto scope = three.scope();
  auto network = model::load(folder / "a");
  network.fit(batches(), {.resume = true, .accept_replicas = true});
  EXPECT_EQ(network.steps(), batches().size().value());
}

} // namespace

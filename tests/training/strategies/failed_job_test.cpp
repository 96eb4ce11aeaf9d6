#include "losses.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

// What processes save when their job ends with an error.

namespace {

using namespace troupe;
using namespace troupe::test;

using FailedJob = scratch_test;

struct saved_copy {
  std::filesystem::path name;
  std::uint64_t steps = 0;
};

/// Loads what a process has saved, and completes the training in one process.
void expect_to_go_on(const saved_copy& from) {
  const auto on = turns(2);
  {
    const auto scope = on.scope();
    auto loaded = model::load(from.name);
    EXPECT_EQ(loaded.steps(), from.steps);
    EXPECT_TRUE(loaded.interrupted());
    loaded.fit(uneven_batches(), {.epochs = 2, .resume = true});
    EXPECT_EQ(loaded.weights_sha256(), weights_after_fit(on));
  }
}

/// Two processes lose their connection in the given step. Neither knows that
/// the other one has ended, so neither goes on.
/// None: before the first call.
void end_with_a_cut(const std::filesystem::path& folder,
                    std::optional<std::uint64_t> step) {
  std::vector<saved_copy> saved(2);
  const auto thrown =
    run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == step)
          cut_off(on);
      }});
      if (w == 0 && !step)
        cut_off(on);
      try {
        it.fit(uneven_batches(), how);
      } catch (const job_error&) {
        saved[w] = {it.save_after_failure(folder / "saved", "a note"),
                    it.steps()};
        throw;
      }
    });
  for (const std::uint32_t w : {0, 1}) {
    EXPECT_NE(exception_text(thrown[w]), "") << "the fault did not occur";
    EXPECT_EQ(saved[w].name.filename(), "saved.view-1." + std::to_string(w));
    EXPECT_GE(saved[w].steps, step ? *step + 1 : 0);
    EXPECT_EQ(saved_note(saved[w].name), "a note");
    expect_to_go_on(saved[w]);
  }
}

TEST_F(FailedJob, GoesOnFromTheLastStepOfEachProcess) {
  end_with_a_cut(folder, 5);
}

TEST_F(FailedJob, GoesOnFromItsBeginning) {
  end_with_a_cut(folder, {});
}

/// The step is the last one of an epoch.
TEST_F(FailedJob, GoesOnFromTheEndOfAnEpoch) {
  end_with_a_cut(folder, 12);
}

TEST_F(FailedJob, GoesOnFromTheEndOfTheLastEpoch) {
  end_with_a_cut(folder, 25);
}

TEST_F(FailedJob, IsNotSavedByAProcessThatHasLeftIt) {
  std::atomic<bool> leaves = false;
  std::filesystem::path name{"none"};
  const auto thrown =
    run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.leave = w == 1 ? &leaves : nullptr;
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 1 && x.step == 5)
          leaves = true;
      }});
      if (it.fit(uneven_batches(), how).end == fit_end::left)
        name = it.save_after_failure(folder / "saved");
    });
  EXPECT_EQ(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_EQ(name, std::filesystem::path{});
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

std::string bytes_of_file(const std::filesystem::path& name) {
  std::ifstream in{name, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// Worker 0 is the chief, which writes the files of its job.
TEST_F(FailedJob, AChiefThatHasLeftTheJobWritesNoFile) {
  std::atomic<bool> leaves = false;
  bool has_left = false;
  const auto thrown =
    run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      it.save(folder / "earlier");
      fit_options how{.epochs = 2};
      how.leave = w == 0 ? &leaves : nullptr;
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == 5)
          leaves = true;
      }});
      if (it.fit(uneven_batches(), how).end != fit_end::left)
        return;
      has_left = true;
      const auto before = bytes_of_file(folder / "earlier");
      for (const auto* const name : {"earlier", "new"})
        EXPECT_THROW(it.save(folder / name), job_error);
      EXPECT_NE(before, "");
      EXPECT_TRUE(bytes_of_file(folder / "earlier") == before);
      EXPECT_FALSE(std::filesystem::exists(folder / "new"));
      EXPECT_NO_THROW(it.weights_sha256());
    });
  expect_nothing_thrown(thrown);
  EXPECT_TRUE(has_left) << "the other worker goes on";
}

} // namespace

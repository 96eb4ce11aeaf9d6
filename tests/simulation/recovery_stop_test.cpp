#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/simulation/elastic_job.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/model.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <optional>

// A simulated job whose recovery does not end, and a program that is told to
// stop meanwhile.

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

models::model_description network() {
  return {"tiny", {4}, models::stack(models::dense{3})};
}

data::dataset batches() {
  return data::dataset{tensor::full({80, 4}, 0.5f),
                       tensor::zeros({80}, dtype::int32), 3}
    .batch(16);
}

class StoppedRecovery : public scratch_test {};

/// Process 2 is killed while process 1 is in a callback for minutes. So process
/// 0 waits for process 1 in the view change.
TEST_F(StoppedRecovery, EndsSoonAndLeavesTheStateToBeSaved) {
  log_from(log_level::off);
  simulator sim{3};
  std::optional<elastic_job> job;
  std::array<std::atomic<bool>, 3> stop{};
  std::optional<ec> code;
  std::filesystem::path file;
  caf::timespan ended_at{};
  std::optional<caf::timespan> killed_at;
  bool is_in_callback = false;
  const auto program = [&](process_life& life, const strategy& on) {
    const auto scope = on.scope();
    model trained{network(), sgd{.learning_rate = 0.1f}};
    fit_options how{.epochs = 2, .prefetch = 0, .stop = &stop[life.task]};
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (life.task != 1 || x.step != 3)
        return;
      is_in_callback = true;
      job->pause(life, 300s);
    }});
    try {
      trained.fit(batches(), how);
    } catch (const job_error& e) {
      if (life.task != 0)
        return;
      code = e.code;
      ended_at = sim.elapsed();
      file = trained.save_after_failure(folder / "model");
    }
  };
  job.emplace(sim,
              elastic_job_options{.processes = 3, .step_timeout = 600'000ms},
              program);
  const auto kill_one = [&] {
    if (!is_in_callback || killed_at)
      return;
    killed_at = sim.elapsed();
    stop[0] = true;
    job->kill(2);
  };
  EXPECT_TRUE(job->run(kill_one, 1000s));
  log_from(log_level::warning);
  EXPECT_EQ(code, ec::cancelled);
  EXPECT_TRUE(std::filesystem::exists(file)) << file;
  ASSERT_TRUE(killed_at);
  EXPECT_GE(ended_at - *killed_at, 5s);
  EXPECT_LE(ended_at - *killed_at, 8s);
}

} // namespace
} // namespace troupe::simulation

#include "losses.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/tests/support/becomes_true.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

// Workers that ask to leave a running job.

namespace {

using namespace troupe;
using namespace troupe::test;

/// An epoch has 50 steps, and a run that is stopped makes at most 32 further
/// ones. So a worker that wants to leave early leaves in the middle of an
/// epoch.
data::dataset small_batches() {
  return digits_200().shuffle().batch(4);
}
constexpr std::uint64_t epoch_steps = 50;
constexpr std::uint64_t steps_of_both = 2 * epoch_steps;
constexpr std::uint64_t max_further_steps = 32;

struct leaving_worker {
  std::uint32_t worker;
  std::uint64_t step; ///< Its flag is set in its callback of this step.
};
using leaving_workers = std::vector<leaving_worker>;

void PrintTo(const leaving_workers& leavers, std::ostream* out) {
  for (const auto& x : leavers)
    *out << "worker " << x.worker << " after step " << x.step << "; ";
}

/// What the processes of a job give.
struct job_outcome {
  struct process {
    std::string weights, error;
    step_list steps;
    history past;
    std::uint64_t model_steps = 0;
    std::string later_error; ///< Of a call after the fit.
  };
  std::vector<process> processes;
  /// How often a replica has computed a part of a batch. A step that is
  /// repeated counts again.
  std::uint64_t computed_parts = 0;
};

/// Returns options that count the computed parts of batches.
fit_options counting_options(std::atomic<std::uint64_t>& parts) {
  fit_options how{.epochs = 2};
  how.validation = small_batches();
  how.metrics = {
    {.name = "calls",
     .sums = 2,
     .add = [&parts](const tensor&, const tensor&, std::span<double> sums) {
       ++parts;
       sums[0] = sums[1] = 1;
     }}};
  return how;
}

job_outcome undisturbed(std::uint32_t replicas) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto it = small_model();
  std::atomic<std::uint64_t> parts = 0;
  job_outcome out;
  auto& one = out.processes.emplace_back();
  one.past = it.fit(small_batches(), counting_options(parts));
  one.weights = it.weights_sha256();
  one.steps = steps_to(it.steps());
  out.computed_parts = parts;
  return out;
}

/// Trains on a cluster. Sets the leave flags of some workers, and cuts off
/// others in the callback of a step.
job_outcome fit_with_leavers(std::uint32_t workers,
                             const leaving_workers& leavers,
                             const multi_worker_options& options = {},
                             const leaving_workers& lost = {},
                             const std::atomic<bool>* stop = nullptr) {
  job_outcome out;
  out.processes.resize(workers);
  std::atomic<std::uint64_t> parts = 0;
  std::vector<std::atomic<bool>> flags(workers);
  const auto thrown =
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      auto& own = out.processes[w];
      const auto scope = on.scope();
      auto it = small_model();
      auto how = counting_options(parts);
      how.leave = &flags[w];
      how.stop = stop;
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (x.repeated)
          return;
        own.steps.push_back(x.step);
        for (const auto& one : leavers)
          if (one.worker == w && one.step == x.step)
            flags[w] = true;
        for (const auto& one : lost)
          if (one.worker == w && one.step == x.step)
            cut_off(on);
      }});
      own.past = it.fit(small_batches(), how);
      own.model_steps = it.steps();
      own.weights = it.weights_sha256();
      if (own.past.end == fit_end::left)
        try {
          it.evaluate(small_batches());
        } catch (const std::exception& e) {
          own.later_error = e.what();
        }
    });
  for (std::uint32_t w = 0; w < workers; ++w)
    out.processes[w].error = exception_text(thrown[w]);
  out.computed_parts = parts;
  return out;
}

void expect_equal(const job_outcome::process& found,
                  const job_outcome::process& expected) {
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.past.end, fit_end::done);
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.steps, expected.steps);
  ASSERT_EQ(found.past.epochs.size(), expected.past.epochs.size());
  for (std::size_t e = 0; e < found.past.epochs.size(); ++e) {
    EXPECT_EQ(found.past.epochs[e].examples, expected.past.epochs[e].examples);
    EXPECT_EQ(found.past.epochs[e].loss, expected.past.epochs[e].loss);
    EXPECT_EQ(found.past.epochs[e].validation_loss,
              expected.past.epochs[e].validation_loss);
  }
}

/// A worker has left after a step, and was told nothing of later ones.
void expect_left(const job_outcome::process& found, std::uint64_t step) {
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.past.end, fit_end::left);
  EXPECT_EQ(found.steps, steps_to(found.model_steps));
  EXPECT_GT(found.model_steps, step);
  EXPECT_LE(found.model_steps, step + 1 + max_further_steps);
  EXPECT_NE(found.later_error.find("this process has left its job"),
            std::string::npos)
    << found.later_error;
}

/// Expects that all others give the undisturbed result, and that no step was
/// computed twice.
void expect_leaves(std::uint32_t workers, const leaving_workers& leavers,
                   const multi_worker_options& options = {}) {
  const auto found = fit_with_leavers(workers, leavers, options);
  const auto expected =
    undisturbed(workers * static_cast<std::uint32_t>(options.devices.size()));
  for (std::uint32_t w = 0; w < workers; ++w) {
    SCOPED_TRACE("worker " + std::to_string(w));
    const auto leaver = std::ranges::find(leavers, w, &leaving_worker::worker);
    if (leaver == leavers.end())
      expect_equal(found.processes[w], expected.processes.front());
    else
      expect_left(found.processes[w], leaver->step);
  }
  EXPECT_EQ(found.computed_parts, expected.computed_parts);
}

class Leave : public ::testing::TestWithParam<leaving_workers> {};

TEST_P(Leave, GivesTheUndisturbedResultAndRepeatsNoStep) {
  expect_leaves(3, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
  All, Leave,
  ::testing::Values(leaving_workers{{0, 3}}, leaving_workers{{1, 3}},
                    leaving_workers{{2, 3}}, leaving_workers{{0, 49}},
                    leaving_workers{{1, 49}}, leaving_workers{{2, 60}},
                    leaving_workers{{0, 60}}, leaving_workers{{1, 3}, {2, 3}},
                    leaving_workers{{0, 3}, {1, 3}},
                    leaving_workers{{0, 3}, {1, 60}},
                    leaving_workers{{2, 3}, {0, 60}}));

TEST(LeaveCases, OneOfTwoWorkersGoesOnAlone) {
  for (const std::uint32_t leaver : {0, 1})
    expect_leaves(2, {{leaver, 7}});
}

TEST(LeaveCases, SeveralReplicasInEachProcess) {
  multi_worker_options options;
  options.devices = {"cpu:0", "cpu:1"};
  for (const std::uint32_t leaver : {0, 1})
    expect_leaves(2, {{leaver, 7}}, options);
}

/// The flag is set too late for another run.
TEST(LeaveCases, AWorkerStaysIfNoStepFollows) {
  const auto found = fit_with_leavers(2, {{1, steps_of_both - 1}});
  const auto expected = undisturbed(2);
  for (const auto& one : found.processes)
    expect_equal(one, expected.processes.front());
}

void expect_interrupted_at_one_step(const job_outcome& found) {
  for (const auto& one : found.processes) {
    EXPECT_EQ(one.error, "");
    EXPECT_EQ(one.past.end, fit_end::interrupted);
    EXPECT_EQ(one.model_steps, found.processes.front().model_steps);
    EXPECT_EQ(one.weights, found.processes.front().weights);
    EXPECT_LT(one.model_steps, epoch_steps);
  }
}

TEST(LeaveCases, IsAStopOfAllIfNoWorkerWouldStay) {
  expect_interrupted_at_one_step(fit_with_leavers(3, {{0, 3}, {1, 3}, {2, 3}}));
}

TEST(LeaveCases, IsAStopIfTheStopFlagIsSetToo) {
  const std::atomic<bool> stop = true;
  expect_interrupted_at_one_step(fit_with_leavers(3, {{1, 0}}, {}, {}, &stop));
}

TEST(LeaveCases, IsAStopIfTheLauncherHasEndedTheJob) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
            0);
  const net::descriptor launcher{ends[0]}, process{ends[1]};
  ASSERT_EQ(::write(launcher.get(), "end\n", 4), 4);
  const auto link =
    std::to_string(process.get()) + net::launcher_link::no_witness;
  ::setenv(net::launcher_link::variable, link.c_str(), 1);
  const auto found = fit_with_leavers(3, {{1, 3}});
  ::unsetenv(net::launcher_link::variable);
  expect_interrupted_at_one_step(found);
}

/// Worker 1 wants to leave at the time at which worker 2 is lost.
TEST(LeaveCases, ALossAtTheSameTimeChangesNothing) {
  const auto found = fit_with_leavers(4, {{1, 5}}, {}, {{2, 5}});
  const auto expected = undisturbed(4);
  for (const std::uint32_t w : {0, 3})
    expect_equal(found.processes[w], expected.processes.front());
  EXPECT_EQ(found.processes[1].error, "");
  EXPECT_EQ(found.processes[1].past.end, fit_end::left);
  EXPECT_NE(found.processes[2].error, "");
}

/// The count of the tests above shows a repeated step: worker 2 is cut off in a
/// step in which all have computed their parts.
TEST(LeaveCases, TheCountOfPartsShowsARepeatedStep) {
  constexpr std::uint64_t cut_step = 5, parts_before = 3 * (cut_step + 1);
  std::atomic<std::uint64_t> parts = 0;
  std::atomic<const strategy*> first = nullptr;
  std::atomic<bool> was_cut = false;
  const auto thrown =
    run_on_cluster(3, {}, [&](const strategy& on, std::uint32_t w) {
      if (w == 0)
        first = &on;
      const auto scope = on.scope();
      auto it = small_model();
      auto how = counting_options(parts);
      std::uint64_t own_parts = 0;
      const auto add = how.metrics->front().add;
      how.metrics->front().add = [&](const tensor& outputs,
                                     const tensor& labels,
                                     std::span<double> sums) {
        add(outputs, labels, sums);
        if (w != 2 || own_parts++ != cut_step)
          return;
        // The others compute theirs.
        EXPECT_TRUE(becomes_true([&] { return parts >= parts_before; }));
        cut_off(on);
        auto& peers = peers_of(*first);
        std::unique_lock hold{peers.lock};
        was_cut = peers.wait(
          hold, peer_table::clock::now() + std::chrono::minutes{1},
          [&] { return peers.stop.stopped || peers.view.view_id > 1; });
      };
      it.fit(small_batches(), how);
    });
  EXPECT_TRUE(was_cut);
  EXPECT_NE(exception_text(thrown[2]), "");
  EXPECT_EQ(parts, undisturbed(3).computed_parts + 3);
}

/// A strategy of one process has no job that goes on.
TEST(LeaveCases, IsAStopInASingleProcess) {
  const auto on = turns(2);
  const auto scope = on.scope();
  auto it = small_model();
  const std::atomic<bool> leave = true;
  fit_options how{.epochs = 2};
  how.leave = &leave;
  EXPECT_EQ(it.fit(small_batches(), how).end, fit_end::interrupted);
  EXPECT_TRUE(it.interrupted());
}

} // namespace

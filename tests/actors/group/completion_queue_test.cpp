#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/replica/step_registry.hpp"

#include <gtest/gtest.h>

// Tests of the queue through which the roles of a group notify the caller. All
// notifications are in the queue before the caller reads it, so no test waits.

namespace troupe {
namespace {

using ids = std::vector<std::uint32_t>;

using namespace std::chrono_literals;

failure_report error(ec code, const std::string& cause) {
  return {.code = code, .cause = cause};
}

completion_queue make_queue() {
  return completion_queue{std::make_shared<blocking_wait_strategy>()};
}

/// Returns the committed steps and how the run ended.
std::string drain(completion_queue& queue) {
  std::string text;
  try {
    const auto next = queue.wait_for_run(
      [&](const commit_record& record, bool more) {
        text += std::to_string(record.step) + (more ? ", " : "; ");
      },
      0ms);
    return text + (next ? "next " + std::to_string(*next) : "nothing yet");
  } catch (const job_error& e) {
    return text + to_string(e.code) + ": " + e.what();
  }
}

void commit(completion_queue& queue, std::uint64_t run, std::uint64_t step) {
  queue.on_committed(run, commit_record{step, 1, {0}, {}});
}

TEST(CompletionQueue, DeliversCommitsInOrderAndThenTheEnd) {
  auto queue = make_queue();
  const auto run = queue.begin_run();
  for (const std::uint64_t step : {4, 5, 6})
    commit(queue, run, step);
  queue.on_completed(run, 7);
  EXPECT_EQ(drain(queue), "4, 5, 6; next 7");
}

TEST(CompletionQueue, IgnoresNotificationsOfAnotherRun) {
  auto queue = make_queue();
  const auto first = queue.begin_run();
  commit(queue, first, 1);
  queue.on_completed(first, 2);
  EXPECT_EQ(drain(queue), "1; next 2");
  const auto second = queue.begin_run();
  EXPECT_EQ(second, first + 1);
  commit(queue, first, 8);
  queue.on_completed(first, 9);
  queue.on_aborted(first, error(ec::invalid, "too late"));
  EXPECT_EQ(drain(queue), "nothing yet");
}

TEST(CompletionQueue, BeginsEachRunEmpty) {
  auto queue = make_queue();
  const auto first = queue.begin_run();
  queue.on_aborted(first, error(ec::stalled, "no event"));
  EXPECT_EQ(drain(queue), "stalled: no event");
  const auto second = queue.begin_run();
  EXPECT_EQ(drain(queue), "nothing yet");
  commit(queue, second, 3);
  const auto third = queue.begin_run();
  queue.on_completed(third, 5);
  EXPECT_EQ(drain(queue), "next 5");
}

TEST(CompletionQueue, KeepsTheFirstError) {
  auto queue = make_queue();
  const auto run = queue.begin_run();
  queue.on_aborted(run, error(ec::stalled, "the first"));
  queue.on_aborted(run, error(ec::invalid, "the second"));
  queue.on_group_terminated(error(ec::cancelled, "the third"));
  EXPECT_EQ(drain(queue), "stalled: the first");
  EXPECT_THROW(queue.begin_run(), job_error);
}

// A program reads who was lost without reading the sentence.
TEST(CompletionQueue, ThrowsTheReportWithTheSentence) {
  const failure_report report{
    .kind = failure_kind::process_lost,
    .code = ec::peer_lost,
    .processes = {1},
    .replicas = {1},
    .run = 1,
    .step = 7,
    .cause = "closed",
    .waits = {{false, 0, activity::all_reduce, 2, {1}}},
  };
  completion_queue queue{std::make_shared<blocking_wait_strategy>(),
                         {{"chief 0", "worker 1"}, placement{{{0}, {1}}}}};
  queue.on_aborted(queue.begin_run(), failure_report{report});
  try {
    queue.wait_for_run([](const commit_record&, bool) {}, 0ms);
    ADD_FAILURE() << "no failure";
  } catch (const job_error& e) {
    const auto copy = e;
    EXPECT_EQ(copy.report(), report);
    EXPECT_EQ(copy.code, ec::peer_lost);
    EXPECT_STREQ(copy.what(),
                 "worker 1 was lost in step 7: closed; replica 0 waits for the "
                 "sum of bucket 2, still missing replica 1");
  }
}

TEST(CompletionQueue, ReplacesControlCharactersInTextsOfPeers) {
  auto queue = make_queue();
  auto report = error(ec::invalid, "a\x1b[31mb");
  report.later_cause = "c\x07";
  queue.on_aborted(queue.begin_run(), std::move(report));
  try {
    queue.wait_for_run([](const commit_record&, bool) {}, 0ms);
    ADD_FAILURE() << "no failure";
  } catch (const job_error& e) {
    EXPECT_STREQ(e.what(), "a?[31mb; c?");
    EXPECT_EQ(e.report().cause, "a?[31mb");
    EXPECT_EQ(e.report().later_cause, "c?");
  }
}

TEST(CompletionQueue, AllowsOneRunOrTaskAtATime) {
  auto queue = make_queue();
  queue.begin_run();
  EXPECT_THROW(queue.begin_run(), std::logic_error);
  EXPECT_THROW(queue.begin_tasks(ids{0}), std::logic_error);
  EXPECT_EQ(drain(queue), "nothing yet"); // the run times out
  const auto task = queue.begin_tasks(ids{0});
  EXPECT_THROW(queue.begin_run(), std::logic_error);
  EXPECT_THROW(queue.begin_tasks(ids{0}), std::logic_error);
  queue.on_task_done(task, 0, "");
  queue.wait_for_tasks(0ms);
  EXPECT_NO_THROW(queue.begin_run());
}

TEST(CompletionQueue, EndsWithItsChief) {
  auto queue = make_queue();
  queue.begin_run();
  EXPECT_FALSE(queue.group_terminated());
  queue.on_role_terminated(false);
  EXPECT_EQ(drain(queue), "nothing yet") << "that was another role";
  EXPECT_FALSE(queue.wait_for_terminations(2, 0ms));
  queue.on_role_terminated(true);
  EXPECT_TRUE(queue.group_terminated());
  EXPECT_TRUE(queue.wait_for_terminations(2, 0ms));
  EXPECT_FALSE(queue.wait_for_terminations(3, 0ms));
  EXPECT_THROW(queue.begin_run(), job_error);
}

TEST(CompletionQueue, EndsAnActiveRunWithItsChief) {
  auto queue = make_queue();
  queue.begin_run();
  queue.on_role_terminated(true);
  EXPECT_EQ(drain(queue),
            "cancelled: the chief of this replica group has terminated; the "
            "group can run no more steps");
}

/// The other processes have asked for different runs, and have ended.
TEST(CompletionQueue, FailsARunThatWasRejectedBeforeItBegins) {
  auto queue = make_queue();
  queue.on_aborted(1, error(ec::protocol, "other steps"));
  queue.on_group_terminated(error(ec::peer_lost, "the chief has ended"));
  EXPECT_EQ(queue.begin_run(), 1u);
  EXPECT_EQ(drain(queue), "protocol: other steps");
  EXPECT_THROW(queue.begin_run(), job_error);
}

TEST(CompletionQueue, PrefersTheEndOfARunToTheEndOfItsChief) {
  auto queue = make_queue();
  const auto run = queue.begin_run();
  queue.on_completed(run, 4);
  queue.on_role_terminated(true);
  EXPECT_EQ(drain(queue), "next 4");
}

TEST(CompletionQueue, NamesAReplicaThatDoesNotRunATask) {
  auto queue = make_queue();
  const auto old = queue.begin_tasks(ids{4, 5});
  queue.on_task_done(old, 4, "");
  try {
    queue.wait_for_tasks(0ms);
    ADD_FAILURE() << "no failure";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::stalled);
    EXPECT_STREQ(e.what(), "for 0 ms replica 5 did not run the function "
                           "given to for_each");
  }
  const auto task = queue.begin_tasks(ids{4, 5});
  for (const std::uint32_t r : {4, 5})
    queue.on_task_done(old, r, "of the previous task");
  EXPECT_THROW(queue.wait_for_tasks(0ms), job_error);
  EXPECT_EQ(task, old + 1);
}

TEST(CompletionQueue, ThrowsTheFirstErrorOfATask) {
  auto queue = make_queue();
  for (int i = 0; i < 2; ++i) {
    const auto task = queue.begin_tasks(ids{0, 1, 2});
    queue.on_task_done(task, 2, "no file");
    queue.on_task_done(task, 0, "");
    queue.on_task_done(task, 1, "no disk");
    try {
      queue.wait_for_tasks(0ms);
      ADD_FAILURE() << "no failure";
    } catch (const job_error& e) {
      EXPECT_EQ(e.code, ec::invalid);
      EXPECT_STREQ(e.what(), "replica 2: no file");
    }
  }
  const auto task = queue.begin_tasks(ids{0});
  queue.on_task_done(task, 0, "");
  EXPECT_NO_THROW(queue.wait_for_tasks(0ms))
    << "errors of an older task do not count";
}

TEST(StepRegistry, FindsAStepFunctionByName) {
  step_registry registry;
  const auto fn = std::make_shared<const step_function>([](step_context&) {});
  EXPECT_FALSE(registry.find("a"));
  registry.add("a", fn);
  EXPECT_EQ(registry.find("a"), fn);
  EXPECT_FALSE(registry.find("b"));
  registry.remove("a");
  EXPECT_FALSE(registry.find("a"));
}

} // namespace
} // namespace troupe

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/support/flight_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

namespace {

using namespace troupe;
using namespace troupe::test;

/// Runs that fail in a worker, by number from 0.
struct planned_failures {
  std::set<int> before{}; ///< The run fails before it begins.
  std::set<int> after{};  ///< The run is complete, but its end is not reported.
  int views = 0;          ///< Number of calls of `enter_next_view`.
  std::vector<view_change::job_position> positions{}; ///< Their arguments.
  /// Incarnations of the members before and after a change of the view.
  std::vector<std::uint64_t> members{}, next_members{};
  bool fails_to_leave = false; ///< `let_leave` throws.
};

/// A group whose runs fail as planned, and which can always go on.
class failing_group final : public replica_group {
public:
  failing_group(std::unique_ptr<replica_group> inner, planned_failures& plan)
    : inner_{std::move(inner)}, plan_{plan} {}

  const local_placement& replica_placement() const override {
    return inner_->replica_placement();
  }
  std::uint64_t run(const run_request& request) override {
    const auto number = runs_++;
    const job_error loss{ec::peer_lost, "the plan wants it"};
    if (plan_.before.contains(number))
      throw loss;
    const auto next = inner_->run(request);
    if (plan_.after.contains(number))
      throw loss;
    return next;
  }
  void stop() override { inner_->stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    inner_->for_each(fn);
  }
  bool enter_next_view(const std::optional<view_change::job_position>& position,
                       std::chrono::milliseconds) override {
    ++plan_.views;
    plan_.positions.push_back(position.value());
    plan_.members = plan_.next_members;
    return true;
  }
  std::vector<std::uint64_t> members() const override { return plan_.members; }
  leave_result let_leave(const std::vector<std::uint64_t>&,
                         const view_change::job_position&,
                         std::chrono::milliseconds) override {
    if (plan_.fails_to_leave)
      throw job_error(ec::peer_lost, "no view after a process has left");
    plan_.members = plan_.next_members;
    return leave_result::entered;
  }

private:
  std::unique_ptr<replica_group> inner_;
  planned_failures& plan_;
  int runs_ = 0;
};

/// Calls `fn` on two workers whose runs fail as planned.
void run_with_failures(
  std::vector<planned_failures>& plans,
  const std::function<void(const std::shared_ptr<strategy_state>&,
                           std::uint32_t)>& fn) {
  const auto workers = static_cast<std::uint32_t>(plans.size());
  runtime actors;
  const auto joint = std::make_shared<combined_group>(
    make_replica_group(actors, {.replicas = workers}), workers);
  std::vector<std::string> errors(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      try {
        fn(make_strategy_state(
             std::make_unique<failing_group>(joint->group_of(w), plans[w]),
             "multi_worker_mirrored", {device{}}, 1),
           w);
      } catch (const std::exception& e) {
        errors[w] = e.what();
      }
    });
  for (auto& one : threads)
    one.join();
  for (const auto& one : errors)
    EXPECT_EQ(one, "");
}

std::string name_of(std::uint32_t worker) {
  return std::string(1, char('a' + worker));
}

TEST(JobCall, IsRepeatedIfNoProcessHasCompletedIt) {
  std::vector<planned_failures> plans(2);
  for (auto& one : plans)
    one.before = {0};
  run_with_failures(plans, [](const auto& state, std::uint32_t w) {
    const std::vector<std::string> all{"a", "b"};
    EXPECT_EQ(all_gather_text(state, name_of(w)), all);
    EXPECT_EQ(state->calls, 1u);
  });
  for (const auto& one : plans)
    EXPECT_EQ(one.views, 1);
}

/// Worker 1 does not hear of the end of the first call. Worker 0 is in the
/// second call when it hears of the loss.
TEST(JobCall, IsCompletedByTheResultOfAProcessThatIsInTheNextOne) {
  std::vector<planned_failures> plans(2);
  plans[0].before = {1};
  plans[1].after = {0};
  run_with_failures(plans, [](const auto& state, std::uint32_t w) {
    const std::vector<std::string> all{"a", "b"}, later{"later a", "later b"};
    EXPECT_EQ(all_gather_text(state, name_of(w)), all);
    EXPECT_EQ(all_gather_text(state, "later " + name_of(w)), later);
    EXPECT_EQ(state->calls, 2u);
  });
  EXPECT_EQ(plans[0].positions.at(0).run, 1u);
  EXPECT_EQ(plans[1].positions.at(0).run, 0u);
}

/// The run of the gather of positions fails, too.
TEST(JobCall, SurvivesALossWhileTheProcessesCatchUp) {
  std::vector<planned_failures> plans(2);
  plans[0].before = {1, 2};
  plans[1].after = {0};
  plans[1].before = {1};
  run_with_failures(plans, [](const auto& state, std::uint32_t w) {
    const std::vector<std::string> all{"a", "b"};
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(all_gather_text(state, name_of(w)), all);
  });
  for (const auto& one : plans)
    EXPECT_EQ(one.views, 2);
}

TEST(JobCall, CallsTheFunctionOfTheChiefOnce) {
  std::vector<planned_failures> plans(2);
  plans[0].before = {1};
  plans[1].after = {0};
  std::atomic<int> calls = 0;
  run_with_failures(plans, [&](const auto& state, std::uint32_t) {
    run_on_chief(state, [&] { ++calls; });
    run_on_chief(state, [&] { ++calls; });
  });
  EXPECT_EQ(calls, 2);
}

TEST(JobCall, PassesOnErrorsThatAreNoLoss) {
  std::vector<planned_failures> plans(2);
  run_with_failures(plans, [](const auto& state, std::uint32_t) {
    job_call call;
    call.run = []() -> std::string {
      throw job_error(ec::stalled, "too slow");
    };
    EXPECT_THROW(make_call(state, call), job_error);
    EXPECT_EQ(state->calls, 0u);
  });
  EXPECT_EQ(plans[0].views, 0);
}

TEST(JobCall, IsRefusedInAnotherCall) {
  std::vector<planned_failures> plans(1);
  run_with_failures(plans, [](const auto& state, std::uint32_t) {
    job_call inner, outer;
    inner.name = "save";
    inner.run = [] { return std::string{}; };
    outer.name = "fit";
    std::string text;
    outer.run = [&] {
      try {
        make_call(state, inner);
      } catch (const std::logic_error& e) {
        text = e.what();
      }
      return std::string{};
    };
    make_call(state, outer);
    EXPECT_EQ(text,
              "save was called while another call of the "
              "multi_worker_mirrored strategy is active; a strategy makes "
              "one call at a time");
    make_call(state, inner);
    EXPECT_EQ(state->calls, 2u);
  });
}

// -- processes that leave because a result is unknown -------------------------

/// A job whose next view lacks the processes that have left before it. The
/// groups have no protocol of membership: each view has one process less than
/// the view before.
class shrinking_job {
public:
  struct departure {
    std::uint32_t process = 0;
    std::size_t view = 0; ///< View in which the process has left, from 0.
    friend bool operator==(const departure&, const departure&) = default;
  };

  static constexpr std::uint32_t processes = 3, replicas = 6;

  explicit shrinking_job(runtime& actors) {
    for (auto p = processes; p > 0; --p)
      views_.push_back(std::make_shared<combined_group>(
        make_replica_group(actors, {.replicas = replicas}), p));
  }

  /// Returns the group of a process in a view that `has_begun`.
  std::unique_ptr<replica_group> group_of(std::uint32_t process,
                                          std::size_t view) {
    const std::lock_guard hold{lock_};
    std::uint32_t index = 0; // in the view
    for (std::uint32_t p = 0; p < process; ++p)
      index += is_member(p, view);
    return views_.at(view)->group_of(index);
  }

  /// Waits until so many processes have left that this view can begin.
  /// @returns false if they do not.
  bool has_begun(std::size_t view) {
    std::unique_lock hold{lock_};
    return has_left_.wait_for(hold, std::chrono::seconds{20},
                              [&] { return departures_.size() >= view; });
  }

  void leave(std::uint32_t process, std::size_t view) {
    const std::lock_guard hold{lock_};
    departures_.push_back({process, view});
    has_left_.notify_all();
  }

  std::vector<departure> departures() {
    const std::lock_guard hold{lock_};
    return departures_;
  }

private:
  /// @pre the lock is held.
  bool is_member(std::uint32_t process, std::size_t view) const {
    return std::none_of(
      departures_.begin(), departures_.begin() + std::ptrdiff_t(view),
      [&](const departure& x) { return x.process == process; });
  }

  std::vector<std::shared_ptr<combined_group>> views_;
  std::mutex lock_;
  std::condition_variable has_left_;
  std::vector<departure> departures_; ///< In their order.
};

void PrintTo(const shrinking_job::departure& x, std::ostream* out) {
  *out << "process " << x.process << " in view " << x.view;
}

/// The group of a process of this job.
class shrinking_group final : public replica_group {
public:
  shrinking_group(shrinking_job& job, std::uint32_t process)
    : job_{job}, process_{process}, inner_{job.group_of(process, 0)} {}

  const local_placement& replica_placement() const override {
    return inner_->replica_placement();
  }
  std::uint64_t run(const run_request& request) override {
    return inner_->run(request);
  }
  void stop() override { inner_->stop(); }
  void for_each(const std::function<void(std::uint32_t)>& fn) override {
    inner_->for_each(fn);
  }
  bool enter_next_view(const std::optional<view_change::job_position>&,
                       std::chrono::milliseconds) override {
    if (!job_.has_begun(view_ + 1))
      return false;
    inner_ = job_.group_of(process_, ++view_);
    return true;
  }
  void leave_at_once() override { job_.leave(process_, view_); }

private:
  shrinking_job& job_;
  const std::uint32_t process_;
  std::unique_ptr<replica_group> inner_;
  std::size_t view_ = 0;
};

/// The argument is the process that has the state. It makes its first call. The
/// other two have joined and know the result of that call, but the processes
/// that had completed it are lost.
class UnknownState : public ::testing::TestWithParam<std::uint32_t> {};

/// If both left the view of three at once, the third process would be no
/// majority of it.
TEST_P(UnknownState, ProcessesThatHaveJoinedLeaveOneAfterTheOther) {
  const auto with_state = GetParam();
  runtime actors;
  shrinking_job job{actors};
  std::vector<std::shared_ptr<strategy_state>> states;
  std::vector<std::vector<std::string>> results(job.processes);
  std::vector<std::exception_ptr> thrown(job.processes);
  for (std::uint32_t p = 0; p < job.processes; ++p) {
    const auto& state = states.emplace_back(make_strategy_state(
      std::make_unique<shrinking_group>(job, p), "multi_worker_mirrored",
      std::vector<device>(job.replicas / job.processes), 1));
    state->must_catch_up = true;
    state->lacks_state = p != with_state;
    state->calls = state->lacks_state ? 1 : 0;
  }
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < job.processes; ++p)
    threads.emplace_back([&, p] {
      try {
        results[p] = all_gather_text(states[p], name_of(p));
      } catch (...) {
        thrown[p] = std::current_exception();
      }
    });
  for (auto& one : threads)
    one.join();
  std::vector<shrinking_job::departure> expected;
  for (std::uint32_t p = 0; p < job.processes; ++p) {
    const bool stays = p == with_state;
    EXPECT_EQ(exception_text(thrown[p]),
              stays ? ""
                    : "this process joins, and the processes with the newest "
                      "state of the job were lost before it could copy that "
                      "state; start it again");
    EXPECT_EQ(results[p],
              stays ? std::vector{name_of(p)} : std::vector<std::string>{});
    EXPECT_EQ(states[p]->calls, 1u);
    if (!stays)
      expected.push_back({p, expected.size()});
  }
  EXPECT_EQ(job.departures(), expected);
}

INSTANTIATE_TEST_SUITE_P(All, UnknownState, ::testing::Values(0, 1, 2));

// -- callbacks that the chief has processed -----------------------------------

/// Returns what each of two workers knows after they have caught up.
/// @param joins worker 1 lacks the state of the job.
std::vector<callback_progress>
after_catching_up(const std::vector<callback_progress>& before,
                  bool joins = false) {
  std::vector<callback_progress> after(2);
  std::vector<planned_failures> plans(2);
  run_with_failures(plans, [&](const auto& state, std::uint32_t w) {
    state->processed_callbacks = before[w];
    state->lacks_state = joins && w == 1;
    state->must_catch_up = true;
    all_gather_text(state, name_of(w));
    after[w] = state->processed_callbacks;
  });
  return after;
}

constexpr auto all_steps = ~std::uint64_t{0};

TEST(ProcessedCallbacks, AreThoseThatAnyProcessKnowsOf) {
  const std::vector<callback_progress> expected(2, {.call = 5, .end = 20});
  EXPECT_EQ(after_catching_up({{5, 20}, {5, 12}}), expected);
  EXPECT_EQ(after_catching_up({{5, 12}, {5, 20}}), expected);
}

/// A fit that returns to an earlier step makes the later ones again.
TEST(ProcessedCallbacks, OfAnEarlierRunAreNotThoseOfALaterOne) {
  EXPECT_EQ(after_catching_up({{9, 22}, {5, 40}}),
            (std::vector<callback_progress>{{9, 22}, {5, all_steps}}));
}

TEST(ProcessedCallbacks, OfAProcessThatJoinsAreThoseOfTheOthers) {
  const std::vector<callback_progress> expected(2, {.call = 9, .end = 22});
  EXPECT_EQ(after_catching_up({{9, 22}, {5, 40}}, true), expected);
  EXPECT_EQ(after_catching_up({{9, 22}, {9, 40}}, true), expected);
  EXPECT_EQ(after_catching_up({{9, 22}, {12, 40}}, true), expected);
}

// -- what is logged -----------------------------------------------------------

using incarnations = std::vector<std::uint64_t>;

/// Keeps the lines of the log while it exists.
class kept_log {
public:
  kept_log() {
    log_to([this](log_level, std::string_view line) {
      const std::lock_guard hold{lock_};
      lines_.emplace_back(line);
    });
  }
  ~kept_log() { log_to(nullptr); }
  kept_log(const kept_log&) = delete;
  kept_log& operator=(const kept_log&) = delete;

  std::vector<std::string> lines() const {
    const std::lock_guard hold{lock_};
    return lines_;
  }

private:
  mutable std::mutex lock_;
  std::vector<std::string> lines_;
};

/// Returns what is logged when the members of a job of two processes change in
/// a call. The groups of this test keep their two processes.
std::vector<std::string> log_of_a_change(const incarnations& before,
                                         const incarnations& after) {
  const kept_log log;
  std::vector<planned_failures> plans(2);
  for (auto& one : plans) {
    one.before = {0};
    one.members = before;
    one.next_members = after;
  }
  run_with_failures(plans, [](const auto& state, std::uint32_t w) {
    all_gather_text(state, name_of(w));
  });
  return log.lines();
}

TEST(JobCallLog, SaysWhichMembersHaveChanged) {
  const std::string end = "; the job goes on with 2 processes";
  using lines = std::vector<std::string>;
  EXPECT_EQ(log_of_a_change({7, 8}, {7, 8}),
            lines{"connections were made again (the plan wants it)" + end});
  EXPECT_EQ(log_of_a_change({7, 8}, {7}), lines{"the plan wants it" + end});
  EXPECT_EQ(log_of_a_change({7, 8}, {7, 8, 9}),
            lines{"a process has joined" + end});
  EXPECT_EQ(log_of_a_change({7, 8, 9}, {7, 8, 10}),
            lines{"the plan wants it; a process has joined" + end});
}

/// Returns what is logged when the processes 8 and 9 want to leave.
std::vector<std::string> log_of_a_leave(const incarnations& before,
                                        const incarnations& after) {
  const kept_log log;
  std::vector<planned_failures> plans(2);
  for (auto& one : plans) {
    one.members = before;
    one.next_members = after;
  }
  run_with_failures(plans, [](const auto& state, std::uint32_t) {
    EXPECT_FALSE(let_leave(state, {8, 9}));
  });
  return log.lines();
}

TEST(JobCallLog, SaysHowManyProcessesHaveLeft) {
  const std::string end = "; the job goes on with 2 processes";
  using lines = std::vector<std::string>;
  EXPECT_EQ(log_of_a_leave({7, 8}, {7}), lines{"a process has left" + end});
  EXPECT_EQ(log_of_a_leave({7, 8, 9}, {7}),
            lines{"2 processes have left" + end});
  EXPECT_EQ(log_of_a_leave({7, 8}, {7, 10}),
            lines{"a process has left; a process has joined" + end});
  EXPECT_EQ(log_of_a_leave({6, 7, 8}, {7, 8}),
            lines{"a process has been lost" + end});
  EXPECT_EQ(log_of_a_leave({7, 8}, {7, 8}),
            lines{"connections were made again" + end});
}

class LeaveFailure : public scratch_test {};

TEST_F(LeaveFailure, WritesTheEventsOfEachProcess) {
  ::setenv("TROUPE_FLIGHT_DIR", folder.c_str(), 1);
  std::vector<planned_failures> plans(2);
  for (auto& one : plans)
    one.fails_to_leave = true;
  run_with_failures(plans, [](const auto& state, std::uint32_t) {
    state->recorder = make_local_recorder();
    EXPECT_THROW(let_leave(state, {8}), job_error);
  });
  ::unsetenv("TROUPE_FLIGHT_DIR");
  int files = 0;
  for (const auto& one : std::filesystem::directory_iterator{folder}) {
    ++files;
    EXPECT_EQ(read_flight_file(one.path()).error,
              "no view after a process has left");
  }
  EXPECT_EQ(files, 2);
}

} // namespace

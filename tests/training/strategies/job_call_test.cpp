#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/strategies/host_collectives.hpp"
#include "troupe/training/strategies/job_call.hpp"
#include "workers.hpp"

#include <gtest/gtest.h>

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
    return true;
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

} // namespace

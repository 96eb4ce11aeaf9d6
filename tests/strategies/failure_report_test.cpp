#include "troupe/strategies/failure_report.hpp"

#include <gtest/gtest.h>

using namespace troupe;

namespace {

constexpr std::uint32_t processes = 2, replicas = 5000;

role_wait wait_for_replicas(std::uint32_t id, std::size_t missing) {
  return {false, id, activity::all_reduce, 1,
          std::vector<std::uint32_t>(missing, 1)};
}

} // namespace

TEST(FailureReport, IsPossibleOnlyWithinTheJob) {
  const auto possible = [](const auto& change) {
    failure_report report{
      .kind = failure_kind::process_lost,
      .processes = {1},
      .replicas = {3},
      .waits = {{false, 0, activity::all_reduce, 2, {1, 3}}},
      .unresponsive = {2},
      .inside = {0},
      .requests = {{1, 1, 0, 10}},
    };
    change(report);
    return is_possible(report, 2, 4);
  };
  EXPECT_TRUE(possible([](failure_report&) {}));
  EXPECT_FALSE(possible([](failure_report& x) { x.processes = {2}; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.processes = {0, 1, 0}; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.replicas = {4}; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.unresponsive = {4}; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.inside = {4}; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.requests[0].process = 2; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.requests.resize(3); }));
  EXPECT_FALSE(possible([](failure_report& x) { x.waits[0].id = 4; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.waits[0].missing = {4}; }));
  EXPECT_FALSE(possible([](failure_report& x) { x.waits.resize(257); }));
  EXPECT_FALSE(
    possible([](failure_report& x) { x.waits[0].missing.assign(5, 1); }));
}

TEST(FailureReport, MayNameAReducerThatIsNoReplica) {
  failure_report report{.kind = failure_kind::reducer_lost, .replicas = {7}};
  EXPECT_TRUE(is_possible(report, 1, 1));
  report.replicas = {7, 8};
  EXPECT_FALSE(is_possible(report, 1, 1));
  report = {.waits = {{true, 7, activity::reducing, 0, {0}}}};
  EXPECT_TRUE(is_possible(report, 1, 1));
}

TEST(FailureReport, CountsTheStepsOfARunAsTheUserDoes) {
  const requesting_call fit{.name = "fit", .user_step = 100};
  EXPECT_EQ(user_step_of(fit, 10, 10), 100u);
  EXPECT_EQ(user_step_of(fit, 10, 14), 104u);
  EXPECT_EQ(user_step_of(fit, 10, 9), std::nullopt) << "before the run";
  EXPECT_EQ(user_step_of({}, 10, 14), 14u) << "of no call";
  EXPECT_EQ(user_step_of({.name = "save"}, 10, 14), std::nullopt);
  failure_report report{.step = 14, .expected_step = 12};
  use_user_steps(report, fit, 10);
  EXPECT_EQ(report.step, 104u);
  EXPECT_EQ(report.expected_step, 102u);
  EXPECT_EQ(report.operation, "");
}

TEST(FailureReport, NamesTheCallOfAnOperationThatTheUserDoesNotCount) {
  failure_report report{.step = 14};
  use_user_steps(report, {.name = "save"}, 10);
  EXPECT_EQ(report.step, 14u);
  EXPECT_EQ(report.operation, "save");
  EXPECT_TRUE(is_possible(report, processes, replicas));
  report.operation.assign(max_call_name_bytes + 1, 'x');
  EXPECT_FALSE(is_possible(report, processes, replicas));
  shorten(report);
  EXPECT_TRUE(is_possible(report, processes, replicas));
}

TEST(FailureReport, HasBoundedTexts) {
  for (const auto text :
       {&failure_report::cause, &failure_report::later_cause}) {
    failure_report report;
    (report.*text).assign(max_cause_bytes, 'x');
    EXPECT_TRUE(is_possible(report, processes, replicas));
    report.*text += 'y';
    EXPECT_FALSE(is_possible(report, processes, replicas));
    shorten(report);
    EXPECT_EQ(report.*text, std::string(max_cause_bytes, 'x'));
  }
}

TEST(FailureReport, HasABoundedNumberOfWaits) {
  failure_report report;
  for (std::uint32_t id = 0; id < max_waits + 3; ++id)
    report.waits.push_back(wait_for_replicas(id, 0));
  EXPECT_FALSE(is_possible(report, processes, replicas));
  shorten(report);
  EXPECT_TRUE(is_possible(report, processes, replicas));
  EXPECT_EQ(report.waits.size(), max_waits);
  EXPECT_EQ(report.waits.back().id, max_waits - 1);
  EXPECT_EQ(report.unlisted_waits, 3u);
}

TEST(FailureReport, HasABoundedNumberOfMissingReplicas) {
  failure_report report;
  for (std::uint32_t id = 0; id < 6; ++id)
    report.waits.push_back(wait_for_replicas(id, max_missing_replicas / 4));
  shorten(report);
  EXPECT_EQ(report.waits.size(), 4u);
  EXPECT_EQ(report.unlisted_waits, 2u);
  EXPECT_TRUE(is_possible(report, processes, replicas));
}

TEST(FailureReport, IsNotChangedIfItIsWithinTheLimits) {
  const failure_report report{
    .processes = {1}, .cause = "closed", .waits = {wait_for_replicas(0, 2)}};
  auto shortened = report;
  shorten(shortened);
  EXPECT_EQ(shortened, report);
}

TEST(FailureReport, TakesTheWaitAndTheCauseOfALaterFailure) {
  const role_wait first{false, 0, activity::all_reduce, 3, {2}},
    repeated{false, 0, activity::all_reduce, 4, {3}},
    reducer{true, 0, activity::reducing, 3, {2}};
  failure_report report{
    .kind = failure_kind::process_lost, .cause = "closed", .waits = {first}};
  add_failure(report, {.kind = failure_kind::wait_timed_out,
                       .waits = {repeated, reducer}});
  EXPECT_EQ(report.waits, (std::vector{first, reducer}));
  EXPECT_EQ(report.later_cause, "");
  add_failure(report,
              {.kind = failure_kind::step_failed, .cause = "no such file"});
  EXPECT_EQ(report.later_cause, "no such file");
  EXPECT_EQ(report.cause, "closed");
  add_failure(report, {.kind = failure_kind::peer_violation,
                       .cause = "it sent 39 bytes"});
  EXPECT_EQ(report.later_cause,
            "a process violated the protocol: it sent 39 bytes");
  EXPECT_EQ(report.cause, "closed");
  report.later_cause.clear();
  add_failure(report,
              {.kind = failure_kind::step_function_unknown, .cause = "run 7"});
  EXPECT_EQ(report.later_cause, "") << "it is the name of a function";
}

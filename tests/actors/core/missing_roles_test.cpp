#include "troupe/actors/core/failure_text.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using kind = failure_kind;

/// A chief with replicas 0 and 1, and a worker with replicas 2 and 3.
const named_processes cluster{{"chief 0", "worker 1"},
                              placement{{{0, 1}, {2, 3}}}};
constexpr auto none = missing_role::none;

std::vector<missing_role> missing(const failure_report& report) {
  return missing_roles(report, cluster, 250);
}

TEST(MissingRoles, AreThoseWhoseContributionsAreAwaited) {
  const auto found =
    missing({.kind = kind::step_pending,
             .replicas = {0, 3},
             .waits = {{false, 0, activity::all_reduce, 5, {3}}},
             .unresponsive = {3}});
  EXPECT_EQ(found, (std::vector<missing_role>{
                     {3, "worker 1", "the sum of bucket 5", 5, false, 250}}));
}

TEST(MissingRoles, ThatNothingIsKnownToAwaitAreInTheirStepFunction) {
  const auto found = missing({.kind = kind::step_pending, .replicas = {2}});
  EXPECT_EQ(found, (std::vector<missing_role>{
                     {2, "worker 1", "its step function", none, true, 250}}));
}

TEST(MissingRoles, OfTwoCollectivesAreNamedOnceEach) {
  const auto found =
    missing({.kind = kind::stalled,
             .waits = {{false, 0, activity::all_reduce, 1, {2, 3}},
                       {false, 1, activity::all_reduce, 1, {2, 3}},
                       {false, 2, activity::all_gather, 4, {0}},
                       {true, 0, activity::reducing, 1, {3}}}});
  EXPECT_EQ(found, (std::vector<missing_role>{
                     {2, "worker 1", "the sum of bucket 1", 1, true, 250},
                     {3, "worker 1", "the sum of bucket 1", 1, true, 250},
                     {0, "chief 0", "the gather of bucket 4", 4, true, 250}}));
}

TEST(MissingRoles, InTheUpdateHaveNoBucket) {
  const auto found = missing({.kind = kind::step_pending,
                              .waits = {{false, 0, activity::update, 7, {1}}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].operation, "the update");
  EXPECT_EQ(found[0].bucket, none);
}

TEST(MissingRoles, ThatAreProcessesHaveNoReplica) {
  const auto of = [](const failure_report& report) {
    const auto found = missing(report);
    return found.size() == 1 && found[0].replica == none
             ? found[0].process + ": " + found[0].operation
             : std::string{"?"};
  };
  EXPECT_EQ(of({.kind = kind::run_not_joined, .processes = {1}}),
            "worker 1: the next run");
  EXPECT_EQ(of({.kind = kind::run_not_joined,
                .processes = {1},
                .requests = {{0, 9, 0, 1}}}),
            "worker 1: run 9");
  EXPECT_EQ(of({.kind = kind::process_lost, .processes = {1}, .step = 3}),
            "worker 1: step 3");
  EXPECT_EQ(of({.kind = kind::commits_not_taken, .processes = {0}, .step = 3}),
            "chief 0: the callbacks of step 3");
  EXPECT_EQ(
    of({.kind = kind::view_not_agreed, .processes = {1}, .generation = 2}),
    "worker 1: the agreement on view 2");
}

TEST(MissingRoles, OfOtherFailuresAreNone) {
  EXPECT_TRUE(
    missing({.kind = kind::step_failed, .replicas = {1}, .cause = "no file"})
      .empty());
}

/// A report of another process may name replicas that do not exist.
TEST(MissingRoles, ThatDoNotExistHaveNoProcess) {
  const auto found =
    missing({.kind = kind::stalled,
             .waits = {{false, 0, activity::all_reduce, 1, {77}}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].replica, 77u);
  EXPECT_EQ(found[0].process, "?");
}

} // namespace

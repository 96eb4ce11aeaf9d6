#include "troupe/strategies/membership/candidate.hpp"
#include "troupe/tests/strategies/membership/receivers.hpp"

#include <gtest/gtest.h>

namespace troupe::membership {

namespace {

constexpr std::uint64_t candidate_id = 77;

const join_request self{1, candidate_id, "127.0.0.1", 1001, 1, {}};

/// Task 1 was lost in view 1.
view second_view() {
  return {2,
          {{0, 10, "127.0.0.1", 1000, {0, 1}, 1},
           {2, 12, "127.0.0.1", 1002, {2}, 1}}};
}

message current_view(const view& x, const char* text = "") {
  return {message_kind::current_view, text, x};
}

/// A candidate that is connected to tasks 0 and 2.
candidate connected() {
  candidate out{3, self};
  out.on_connected(0, 10);
  out.on_connected(2, 12);
  return out;
}

candidate informed() {
  auto out = connected();
  out.on(0, current_view(second_view(), leads_job));
  out.on(2, current_view(second_view()));
  return out;
}

template <class Effect>
const Effect* find(const reaction& all) {
  for (const auto& x : all)
    if (const auto* one = std::get_if<Effect>(&x))
      return one;
  return nullptr;
}

using tasks = std::vector<std::uint32_t>;

} // namespace

TEST(Candidate, KnowsTheJobWhenAllMembersHaveSentTheirView) {
  auto one = connected();
  EXPECT_TRUE(one.on(0, current_view(second_view(), leads_job)).empty());
  EXPECT_FALSE(one.knows_job());
  const auto effects = one.on(2, current_view(second_view()));
  ASSERT_NE(find<view_changed>(effects), nullptr);
  EXPECT_EQ(find<view_changed>(effects)->view, second_view());
  EXPECT_NE(find<started>(effects), nullptr);
  EXPECT_TRUE(one.knows_job());
  EXPECT_EQ(one.leader(), 10u);
}

TEST(Candidate, WaitsForAMemberThatItIsNotConnectedTo) {
  candidate one{3, self};
  one.on_connected(0, 10);
  one.on(0, current_view(second_view()));
  EXPECT_FALSE(one.knows_job());
  one.on_connected(2, 12);
  one.on(2, current_view(second_view()));
  EXPECT_TRUE(one.knows_job());
}

TEST(Candidate, WaitsForTheIncarnationThatTheViewNames) {
  candidate one{3, self};
  one.on_connected(0, 10);
  one.on_connected(2, 13); // it joins too
  one.on(0, current_view(second_view()));
  EXPECT_TRUE(one.on(2, current_view(second_view())).empty());
  EXPECT_FALSE(one.knows_job());
}

TEST(Candidate, DoesNotWaitForItsPredecessor) {
  auto with_predecessor = second_view();
  with_predecessor.members.insert(with_predecessor.members.begin() + 1,
                                  member{1, 11, "127.0.0.1", 1001, {1}, 1});
  with_predecessor.members[0].replicas = {0};
  auto one = connected();
  one.on(0, current_view(with_predecessor));
  one.on(2, current_view(with_predecessor));
  EXPECT_TRUE(one.knows_job());
}

TEST(Candidate, TakesTheNewestView) {
  auto later = second_view();
  later.view_id = 3;
  auto one = connected();
  one.on(2, current_view(later));
  one.on(0, current_view(second_view()));
  EXPECT_TRUE(one.knows_job());
  EXPECT_EQ(one.view().view_id, 3u);
}

TEST(Candidate, NoLongerWaitsForAMemberThatANewerViewLacks) {
  auto before = second_view();
  before.view_id = 1;
  before.members[0].replicas = {0};
  before.members.push_back({3, 13, "127.0.0.1", 1003, {1}, 1}); // is lost, too
  candidate one{4, self};
  one.on_connected(0, 10);
  one.on_connected(2, 12);
  one.on(0, current_view(before));
  one.on(2, current_view(before));
  EXPECT_FALSE(one.knows_job());
  one.on(2, current_view(second_view()));
  EXPECT_TRUE(one.knows_job());
}

TEST(Candidate, CanEnterAViewThatContainsItAfterItHasAsked) {
  auto next = second_view();
  next.view_id = 3;
  next.members[0].replicas = {0};
  next.members.insert(next.members.begin() + 1,
                      member{1, candidate_id, "127.0.0.1", 1001, {1}, 1});
  auto one = informed();
  EXPECT_FALSE(one.can_enter(next));
  one.ask();
  EXPECT_TRUE(one.can_enter(next));
  EXPECT_FALSE(one.can_enter(second_view()));
  auto of_another = next;
  of_another.members[1].incarnation = candidate_id + 1;
  EXPECT_FALSE(one.can_enter(of_another));
  auto impossible = next;
  impossible.members[1].replicas = {0};
  EXPECT_FALSE(one.can_enter(impossible));
  auto old = next;
  old.view_id = 1;
  EXPECT_FALSE(one.can_enter(old));
}

TEST(Candidate, FailsIfAMemberRejectsItAfterItHasAsked) {
  auto one = informed();
  one.ask();
  const auto effects =
    one.on(2, {message_kind::reject, "the results take too much", {}});
  ASSERT_NE(find<failed>(effects), nullptr);
  EXPECT_TRUE(one.repeat().empty());
}

TEST(Candidate, AsksAllThatItIsConnectedToAndRepeatsThat) {
  auto one = informed();
  EXPECT_TRUE(one.repeat().empty()) << "the program has not come so far";
  EXPECT_EQ(receivers(one.ask(), message_kind::join), (tasks{0, 2}));
  EXPECT_TRUE(one.is_asking());
  one.on_lost(2);
  EXPECT_EQ(receivers(one.repeat(), message_kind::join), (tasks{0}));
  one.on_connected(2, 14); // another process joins
  EXPECT_EQ(receivers(one.repeat(), message_kind::join), (tasks{0, 2}));
}

TEST(Candidate, DoesNotAskBeforeItKnowsTheJob) {
  auto one = connected();
  EXPECT_TRUE(one.ask().empty());
  EXPECT_FALSE(one.is_asking());
}

TEST(Candidate, HasNoLeaderAfterTheLossOfTheLeader) {
  auto one = informed();
  one.on_lost(0);
  EXPECT_EQ(one.leader(), std::nullopt);
}

TEST(Candidate, FailsWithTheReasonOfARejection) {
  auto one = connected();
  const auto effects =
    one.on(0, {message_kind::reject, "the task has a process", {}});
  const auto* failure = find<failed>(effects);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->why.code, ec::refused);
  EXPECT_EQ(failure->why.cause,
            "a running job cannot be joined: the task has a process");
  // It does not begin afterwards.
  one.on(0, current_view(second_view()));
  EXPECT_TRUE(one.on(2, current_view(second_view())).empty());
}

TEST(Candidate, SaysAtTheTimeoutWhatItMisses) {
  candidate none{3, self};
  const auto unanswered = none.on_timeout("connection refused");
  ASSERT_NE(find<failed>(unanswered), nullptr);
  EXPECT_EQ(find<failed>(unanswered)->why.cause,
            "a running job cannot be joined: no process of the job answers: "
            "connection refused");
  candidate refused{3, self};
  const auto closed =
    refused.on_timeout("connection refused", "it has a process");
  ASSERT_NE(find<failed>(closed), nullptr);
  EXPECT_EQ(find<failed>(closed)->why.cause,
            "a running job cannot be joined: its processes do not accept this "
            "one within the start timeout: it has a process");
  auto some = connected();
  const auto partial = some.on_timeout("");
  ASSERT_NE(find<failed>(partial), nullptr);
  EXPECT_EQ(find<failed>(partial)->why.cause,
            "a running job cannot be joined: it could not connect to all "
            "processes of the job");
  auto all = informed();
  EXPECT_TRUE(all.on_timeout("").empty());
}

TEST(Candidate, IgnoresAnImpossibleView) {
  for (const auto& spoil : std::vector<void (*)(view&)>{
         [](view& x) { x.view_id = 0; }, [](view& x) { x.members.clear(); },
         [](view& x) { x.members[1].task = 3; },
         [](view& x) { x.members[1].task = 0; },
         [](view& x) { x.members[1].replicas = {1}; },
         [](view& x) { x.members[1].replicas = {3}; },
         [](view& x) { x.members[0].incarnation = 99; }}) {
    auto impossible = second_view();
    spoil(impossible);
    auto one = connected();
    one.on(0, current_view(impossible));
    EXPECT_EQ(one.view().view_id, 0u);
  }
}

TEST(Candidate, HearsThatAMemberLeaves) {
  auto one = informed();
  const auto effects = one.on(2, {message_kind::leave, {}, {}});
  ASSERT_NE(find<left>(effects), nullptr);
  EXPECT_EQ(find<left>(effects)->task, 2u);
}

TEST(Candidate, LeavesOnce) {
  auto one = informed();
  const auto effects = one.leave();
  EXPECT_EQ(receivers(effects, message_kind::leave), (tasks{0, 2}));
  EXPECT_NE(find<ended>(effects), nullptr);
  EXPECT_TRUE(one.leave().empty());
}

} // namespace troupe::membership

#include "troupe/strategies/membership/participant.hpp"

#include <gtest/gtest.h>

namespace troupe::membership {

namespace {

constexpr std::uint64_t leader_id = 10, own_id = 11;

const join_request self{1, own_id, "127.0.0.1", 1001, 2, {}};

view first_view() {
  return {1,
          {{0, leader_id, "127.0.0.1", 1000, {0}},
           {1, own_id, "127.0.0.1", 1001, {1, 2}},
           {2, 12, "127.0.0.1", 1002, {}}}};
}

message view_message(const view& x) {
  return {message_kind::view, {}, x};
}

message start(std::uint64_t view_id) {
  return {message_kind::start, {}, {view_id, {}}};
}

participant joining() {
  participant out{3, self};
  out.on_connected(leader_id);
  return out;
}

participant connecting() {
  auto out = joining();
  out.on(leader_id, view_message(first_view()));
  return out;
}

participant running() {
  auto out = connecting();
  out.on_ready();
  out.on(leader_id, start(1));
  return out;
}

template <class Effect>
const Effect* find(const reaction& all) {
  for (const auto& x : all)
    if (const auto* one = std::get_if<Effect>(&x))
      return one;
  return nullptr;
}

std::optional<failure_kind> failure_of(const reaction& all) {
  const auto* x = find<failed>(all);
  return x ? std::optional{x->why.kind} : std::nullopt;
}

bool sends(const reaction& all, std::uint32_t task, message_kind kind) {
  return std::ranges::any_of(all, [&](const effect& x) {
    const auto* one = std::get_if<send>(&x);
    return one && one->task == task && one->message.kind == kind;
  });
}

using tasks = std::vector<std::uint32_t>;

} // namespace

TEST(MembershipParticipant, TakesPartInTheStart) {
  auto machine = joining();
  const auto formed = machine.on(leader_id, view_message(first_view()));
  ASSERT_TRUE(find<view_changed>(formed));
  EXPECT_EQ(find<view_changed>(formed)->view, first_view());
  EXPECT_TRUE(machine.on(leader_id, start(1)).empty()) << "it is not ready";
  const auto opened = machine.on_ready();
  EXPECT_TRUE(sends(opened, 0, message_kind::ready));
  EXPECT_EQ(find<send>(opened)->message.view.view_id, 1u);
  EXPECT_TRUE(machine.on_ready().empty()) << "repeated";
  EXPECT_TRUE(machine.on(leader_id, start(2)).empty()) << "of another view";
  EXPECT_TRUE(find<started>(machine.on(leader_id, start(1))));
  EXPECT_TRUE(machine.on(leader_id, start(1)).empty()) << "repeated";
  EXPECT_TRUE(machine.on_timeout().empty());
}

TEST(MembershipParticipant, TakesOneViewFromTheLeader) {
  auto machine = joining();
  EXPECT_TRUE(machine.on(99, view_message(first_view())).empty())
    << "of another incarnation of the leader";
  EXPECT_TRUE(
    find<view_changed>(machine.on(leader_id, view_message(first_view()))));
  auto next = first_view();
  next.view_id = 5;
  EXPECT_TRUE(machine.on(leader_id, view_message(next)).empty());
  EXPECT_EQ(machine.view(), first_view());
}

TEST(MembershipParticipant, RefusesAnImpossibleFirstView) {
  const auto failure_with = [](auto change) {
    auto x = first_view();
    change(x);
    auto machine = joining();
    const auto out = machine.on(leader_id, view_message(x));
    EXPECT_FALSE(find<view_changed>(out));
    EXPECT_EQ(std::get<failed>(out.at(0)).notify, (tasks{0}));
    return failure_of(out);
  };
  using enum failure_kind;
  EXPECT_EQ(failure_with([](view& x) { x.members.pop_back(); }),
            malformed_view);
  EXPECT_EQ(failure_with([](view& x) { x.members.clear(); }), malformed_view);
  EXPECT_EQ(failure_with([](view& x) { x.members[1].incarnation = 7; }),
            malformed_view)
    << "without this process";
  EXPECT_EQ(failure_with([](view& x) { x.members[0].incarnation = 7; }),
            malformed_view)
    << "without the leader";
  EXPECT_EQ(failure_with([](view& x) { x.members[2].task = 3; }),
            malformed_view);
  EXPECT_EQ(failure_with([](view& x) { x.members[2].task = 1; }),
            malformed_view);
  EXPECT_EQ(
    failure_with([](view& x) { std::swap(x.members[0], x.members[2]); }),
    malformed_view);
  EXPECT_EQ(failure_with([](view& x) { x.members[2].replicas = {1}; }),
            malformed_view)
    << "two processes host replica 1";
  EXPECT_EQ(failure_with([](view& x) { x.members[2].replicas = {4}; }),
            malformed_view)
    << "no process hosts replica 3";
  EXPECT_EQ(failure_with([](view& x) {
              x.members[1].replicas = {1};
              x.members[2].replicas = {2};
            }),
            malformed_view)
    << "this process hosts two";
  EXPECT_EQ(failure_with([](view& x) { x.members[2].port = 0; }),
            malformed_view);
  EXPECT_EQ(failure_with([](view& x) { x.members[2].host.clear(); }),
            malformed_view);
}

TEST(MembershipParticipant, FailsIfTheLeaderRejectsAbortsOrIsLost) {
  using enum failure_kind;
  auto dialing = participant{3, self};
  const auto early = dialing.on_rejected("no");
  EXPECT_EQ(failure_of(early), join_rejected);
  EXPECT_TRUE(find<failed>(early)->notify.empty()) << "it is not connected";
  EXPECT_EQ(find<failed>(early)->why.code, ec::refused);
  auto asked = joining();
  EXPECT_EQ(failure_of(asked.on(leader_id, {message_kind::reject, "no", {}})),
            join_rejected);
  auto told = connecting();
  EXPECT_EQ(failure_of(told.on(leader_id, {message_kind::abort, "x", {}})),
            unspecified);
  auto cut = connecting();
  const auto lost_leader = cut.on_lost(leader_id, ec::unreachable, "silent");
  EXPECT_EQ(failure_of(lost_leader), process_lost_in_start);
  EXPECT_EQ(find<failed>(lost_leader)->why.code, ec::unreachable);
  EXPECT_TRUE(find<failed>(lost_leader)->notify.empty());
  auto ended_job = connecting();
  const auto shut = ended_job.on(leader_id, {message_kind::shutdown, {}, {}});
  EXPECT_TRUE(sends(shut, 0, message_kind::leave));
  EXPECT_EQ(failure_of(shut), process_lost_in_start);
}

TEST(MembershipParticipant, FailsOnceOnly) {
  auto machine = joining();
  EXPECT_TRUE(failure_of(machine.on_timeout()));
  EXPECT_TRUE(machine.on_timeout().empty());
  EXPECT_TRUE(machine.on_abort(ec::stalled, "x").empty());
  EXPECT_TRUE(machine.on(leader_id, view_message(first_view())).empty());
  EXPECT_TRUE(machine.on(leader_id, {message_kind::abort, "x", {}}).empty());
  EXPECT_TRUE(machine.on_lost(leader_id, ec::peer_lost, "x").empty());
}

TEST(MembershipParticipant, SaysWhatItWaitedForAtATimeout) {
  using enum failure_kind;
  EXPECT_EQ(failure_of(participant(3, self).on_timeout()), leader_unreachable);
  EXPECT_EQ(failure_of(joining().on_timeout()), view_missing);
  EXPECT_EQ(failure_of(connecting().on_timeout()), lanes_not_open);
  auto is_ready = connecting();
  is_ready.on_ready();
  EXPECT_EQ(failure_of(is_ready.on_timeout()), start_missing);
}

TEST(MembershipParticipant, LeavesTheJob) {
  auto machine = running();
  const auto leaves = machine.leave();
  EXPECT_TRUE(sends(leaves, 0, message_kind::leave));
  EXPECT_TRUE(sends(leaves, 2, message_kind::leave)) << "to all participants";
  EXPECT_FALSE(sends(leaves, 1, message_kind::leave)) << "itself";
  EXPECT_TRUE(machine.leave().empty()) << "called again";
  const auto done = machine.on(leader_id, {message_kind::leave_ack, {}, {}});
  EXPECT_TRUE(find<left>(done) && find<ended>(done));
  auto alone = running();
  EXPECT_TRUE(alone.on_lost(leader_id, ec::peer_lost, "x").empty())
    << "the runs report it";
  EXPECT_TRUE(find<ended>(alone.leave()));
  auto cut = running();
  cut.leave();
  EXPECT_TRUE(find<ended>(cut.on_lost(leader_id, ec::peer_lost, "x")));
}

TEST(MembershipParticipant, SaysAgainThatItLeavesIfAConnectionWasCut) {
  auto machine = running();
  EXPECT_TRUE(machine.on_reconnected(2, 12).empty());
  machine.leave();
  EXPECT_TRUE(sends(machine.on_reconnected(2, 12), 2, message_kind::leave));
  EXPECT_TRUE(
    sends(machine.on_reconnected(0, leader_id), 0, message_kind::leave));
  auto ending = running();
  ending.on(leader_id, {message_kind::shutdown, {}, {}});
  EXPECT_TRUE(
    sends(ending.on_reconnected(0, leader_id), 0, message_kind::leave));
  EXPECT_TRUE(ending.on_reconnected(2, 12).empty());
}

// A silent leader is lost, but may be connected once more.
TEST(MembershipParticipant, FollowsALeaderThatIsConnectedAgainAfterItsLoss) {
  auto machine = running();
  machine.on_lost(leader_id, ec::unreachable, "x");
  machine.on_reconnected(0, leader_id);
  EXPECT_TRUE(
    find<job_ends>(machine.on(leader_id, {message_kind::shutdown, {}, {}})));
  auto leaving = running();
  leaving.on_lost(leader_id, ec::unreachable, "x");
  leaving.on_reconnected(0, leader_id);
  EXPECT_FALSE(find<ended>(leaving.leave())) << "it awaits the answer";
  EXPECT_TRUE(
    find<ended>(leaving.on(leader_id, {message_kind::leave_ack, {}, {}})));
}

TEST(MembershipParticipant, AnswersAShutdownAndLeavesAtOnceLater) {
  auto machine = running();
  const auto shut = machine.on(leader_id, {message_kind::shutdown, {}, {}});
  EXPECT_TRUE(sends(shut, 0, message_kind::leave));
  EXPECT_TRUE(find<job_ends>(shut));
  EXPECT_TRUE(find<ended>(machine.leave()));
}

TEST(MembershipParticipant, HearsThatAnotherParticipantLeaves) {
  auto machine = running();
  const auto other = first_view().members[2].incarnation;
  const auto out = machine.on(other, {message_kind::leave, {}, {}});
  ASSERT_TRUE(find<left>(out));
  EXPECT_EQ(find<left>(out)->task, 2u);
  EXPECT_TRUE(machine.on(other, {message_kind::shutdown, {}, {}}).empty())
    << "only the leader ends the job";
  EXPECT_TRUE(machine.on(99, {message_kind::leave, {}, {}}).empty())
    << "it is no member";
}

TEST(MembershipParticipant, HearsThatTheLeaderLeavesAJobThatGoesOn) {
  auto machine = running();
  const auto out = machine.on(leader_id, {message_kind::leave, {}, {}});
  ASSERT_TRUE(find<left>(out));
  EXPECT_EQ(find<left>(out)->task, 0u);
  EXPECT_FALSE(find<job_ends>(out));
  EXPECT_TRUE(find<ended>(machine.leave())) << "it waits for no leader";
  auto leaving = running();
  leaving.leave();
  EXPECT_TRUE(
    find<ended>(leaving.on(leader_id, {message_kind::leave, {}, {}})));
}

TEST(MembershipParticipant, IgnoresMessagesThatNoLeaderSendsBeforeTheStart) {
  for (const auto kind : {message_kind::ready, message_kind::leave}) {
    auto machine = connecting();
    EXPECT_TRUE(machine.on(leader_id, {kind, "x", {7, {}}}).empty());
  }
}

} // namespace troupe::membership

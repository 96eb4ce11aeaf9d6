#include "troupe/strategies/membership/leader.hpp"
#include "troupe/strategies/placement.hpp"
#include "troupe/tests/strategies/membership/receivers.hpp"

#include <gtest/gtest.h>

namespace troupe::membership {

namespace {

const process_config same{"1.0", "v3", 2, 3, "step_window 16"};

join_request request_of(std::uint32_t task, std::uint64_t incarnation,
                        std::uint32_t replicas = 2,
                        const process_config& config = same) {
  return {task,     incarnation, "127.0.0.1", std::uint16_t(1000 + task),
          replicas, config};
}

leader three_tasks() {
  return {3, request_of(0, 10)};
}

/// A leader of three tasks that all have joined, with incarnations 10 to 12.
leader with_view() {
  auto machine = three_tasks();
  machine.on(request_of(1, 11));
  machine.on(request_of(2, 12));
  return machine;
}

message ready(std::uint64_t view_id) {
  return {message_kind::ready, {}, {view_id, {}}};
}

/// A leader of three tasks whose job has begun.
leader running() {
  auto machine = with_view();
  machine.on_ready();
  machine.on(1, 11, ready(1));
  machine.on(2, 12, ready(1));
  return machine;
}

template <class Effect>
std::vector<Effect> effects_of(const reaction& all) {
  std::vector<Effect> out;
  for (const auto& x : all)
    if (const auto* one = std::get_if<Effect>(&x))
      out.push_back(*one);
  return out;
}

using tasks = std::vector<std::uint32_t>;

std::optional<rejection::kind> rejection_of(const reaction& all) {
  const auto x = effects_of<rejected>(all);
  return x.empty() ? std::nullopt : std::optional{x[0].why.cause};
}

std::optional<failure_kind> failure_of(const reaction& all) {
  const auto x = effects_of<failed>(all);
  return x.empty() ? std::nullopt : std::optional{x[0].why.kind};
}

} // namespace

// -- admission ----------------------------------------------------------------

TEST(MembershipLeader, FormsTheFirstViewWhenEveryTaskIsTaken) {
  leader machine{3, request_of(0, 10, 1)};
  EXPECT_TRUE(machine.begin().empty());
  EXPECT_EQ(machine.missing(), (tasks{1, 2}));
  const auto first = machine.on(request_of(2, 12, 3));
  EXPECT_EQ(effects_of<admitted>(first).at(0).task, 2u);
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(machine.view().view_id, 0u);
  const auto last = machine.on(request_of(1, 11, 2));
  const auto all = effects_of<view_changed>(last).at(0).view;
  EXPECT_EQ(all.view_id, 1u);
  ASSERT_EQ(all.members.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.members[i].task, i);
    EXPECT_EQ(all.members[i].incarnation, 10 + i);
    EXPECT_EQ(all.members[i].port, 1000 + i);
  }
  EXPECT_EQ(all.members[0].replicas, (tasks{0}));
  EXPECT_EQ(all.members[1].replicas, (tasks{1, 2}));
  EXPECT_EQ(all.members[2].replicas, (tasks{3, 4, 5}));
  EXPECT_EQ(receivers(last, message_kind::view), (tasks{1, 2}));
  for (const auto& x : effects_of<send>(last))
    EXPECT_EQ(x.message.view, all);
}

TEST(MembershipLeader, OfOneTaskBeginsAlone) {
  leader machine{1, request_of(0, 10)};
  EXPECT_EQ(effects_of<view_changed>(machine.begin()).at(0).view.view_id, 1u);
  EXPECT_EQ(effects_of<started>(machine.on_ready()).size(), 1u);
  EXPECT_EQ(effects_of<ended>(machine.leave()).size(), 1u);
}

TEST(MembershipLeader, AdmitsProcessesWithoutReplicas) {
  leader machine{3, request_of(0, 10, 0)};
  machine.on(request_of(1, 11, 2));
  const auto last = machine.on(request_of(2, 12, 0));
  const auto all = effects_of<view_changed>(last).at(0).view;
  EXPECT_EQ(all.members[0].replicas, tasks{});
  EXPECT_EQ(all.members[1].replicas, (tasks{0, 1}));
  EXPECT_EQ(all.members[2].replicas, tasks{});
}

TEST(MembershipLeader, FailsIfNoProcessHostsAReplica) {
  leader machine{2, request_of(0, 10, 0)};
  const auto last = machine.on(request_of(1, 11, 0));
  EXPECT_EQ(failure_of(last), failure_kind::no_replica);
  EXPECT_EQ(effects_of<failed>(last).at(0).notify, (tasks{1}));
  EXPECT_TRUE(effects_of<view_changed>(last).empty());
}

TEST(MembershipLeader, RejectsUnknownAndTakenTasks) {
  auto machine = three_tasks();
  using enum rejection::kind;
  EXPECT_EQ(rejection_of(machine.on(request_of(3, 1))), unknown_task);
  EXPECT_EQ(rejection_of(machine.on(request_of(~0u, 1))), unknown_task);
  EXPECT_EQ(rejection_of(machine.on(request_of(0, 1))), taken);
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11))), std::nullopt);
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 99))), taken);
  EXPECT_EQ(machine.missing(), (tasks{2})) << "the first of task 1 was kept";
  machine.on(request_of(2, 12));
  EXPECT_EQ(machine.view().members[1].incarnation, 11u);
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 13))), closed);
}

TEST(MembershipLeader, RejectsMoreReplicasThanAJobMayHave) {
  auto machine = three_tasks(); // the leader has 2
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11, ~0u))),
            rejection::kind::replicas);
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11, max_replicas - 1))),
            rejection::kind::replicas);
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11, max_replicas - 2))),
            std::nullopt);
  EXPECT_EQ(rejection_of(machine.on(request_of(2, 12, 1))),
            rejection::kind::replicas);
}

TEST(MembershipLeader, NamesTheConfigurationThatDiffers) {
  const auto rejection_with = [](auto change) {
    auto config = same;
    change(config);
    auto machine = three_tasks();
    const auto all = machine.on(request_of(1, 11, 2, config));
    EXPECT_EQ(machine.missing(), (tasks{1, 2}));
    return effects_of<rejected>(all).at(0).why;
  };
  using enum rejection::kind;
  const auto expect = [](const rejection& x, rejection::kind cause,
                         const char* actual, const char* required) {
    EXPECT_EQ(x.cause, cause);
    EXPECT_EQ(x.task, 1u);
    EXPECT_EQ(x.actual, actual);
    EXPECT_EQ(x.required, required);
  };
  expect(rejection_with([](auto& x) { x.version = "2.0"; }), version, "2.0",
         "1.0");
  expect(rejection_with([](auto& x) { x.kernels = "v4"; }), kernels, "v4",
         "v3");
  expect(rejection_with([](auto& x) { x.threads = 1; }), threads, "1", "2");
  expect(rejection_with([](auto& x) { x.tasks = 4; }),
         rejection::kind::job_size, "4", "3");
  expect(rejection_with([](auto& x) { x.options = "step_window 4"; }), options,
         "step_window 4", "step_window 16");
}

TEST(MembershipLeader, AdmitsARestartedProcessBeforeTheFirstView) {
  auto machine = three_tasks();
  machine.on(request_of(1, 11));
  EXPECT_TRUE(machine.on_lost(1, 99, ec::peer_lost, "").empty())
    << "another incarnation";
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 12))),
            rejection::kind::taken);
  EXPECT_TRUE(machine.on_lost(1, 11, ec::peer_lost, "").empty());
  EXPECT_EQ(machine.missing(), (tasks{1, 2}));
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 12))), std::nullopt);
  machine.on(request_of(2, 20));
  EXPECT_EQ(machine.view().members[1].incarnation, 12u);
}

TEST(MembershipLeader, NeverFreesItsOwnTask) {
  auto machine = three_tasks();
  machine.on_lost(0, 10, ec::peer_lost, "");
  machine.on_lost(3, 10, ec::peer_lost, ""); // unknown task
  machine.on(0, 10, {message_kind::leave, {}, {}});
  EXPECT_EQ(machine.missing(), (tasks{1, 2}));
}

// -- the start ----------------------------------------------------------------

TEST(MembershipLeader, StartsTheJobWhenAllAreReady) {
  auto machine = with_view();
  EXPECT_TRUE(machine.on_ready().empty());
  EXPECT_TRUE(machine.on(1, 11, ready(1)).empty());
  EXPECT_TRUE(machine.on(1, 11, ready(1)).empty()) << "repeated";
  EXPECT_TRUE(machine.on(2, 12, ready(0)).empty()) << "of another view";
  EXPECT_TRUE(machine.on(2, 99, ready(1)).empty()) << "another incarnation";
  const auto last = machine.on(2, 12, ready(1));
  EXPECT_EQ(receivers(last, message_kind::start), (tasks{1, 2}));
  EXPECT_EQ(effects_of<send>(last).at(0).message.view.view_id, 1u);
  EXPECT_EQ(effects_of<started>(last).size(), 1u);
  EXPECT_TRUE(machine.on_timeout().empty());
}

TEST(MembershipLeader, IgnoresAReadyProcessBeforeTheFirstView) {
  auto machine = three_tasks();
  machine.on(request_of(1, 11));
  machine.on(1, 11, ready(1));
  machine.on(1, 11, ready(0));
  machine.on_ready();
  machine.on(request_of(2, 12));
  EXPECT_TRUE(machine.on(2, 12, ready(1)).empty()) << "task 1 is not ready";
}

TEST(MembershipLeader, NamesTheTasksThatAreMissingAtTheTimeout) {
  auto machine = three_tasks();
  machine.on(request_of(2, 12));
  const auto out = machine.on_timeout();
  ASSERT_EQ(out.size(), 1u);
  const auto& [why, notify] = std::get<failed>(out[0]);
  EXPECT_EQ(why.kind, failure_kind::start_not_joined);
  EXPECT_EQ(why.code, ec::stalled);
  EXPECT_EQ(why.processes, (tasks{1}));
  EXPECT_EQ(notify, (tasks{2}));
  EXPECT_TRUE(machine.on_timeout().empty());
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11))),
            rejection::kind::closed);
}

TEST(MembershipLeader, NamesTheTasksThatAreNotReadyAtTheTimeout) {
  auto machine = with_view();
  machine.on(1, 11, ready(1));
  auto same_but_leader = machine;
  EXPECT_EQ(
    effects_of<failed>(same_but_leader.on_timeout()).at(0).why.processes,
    (tasks{0, 2}));
  machine.on_ready();
  const auto out = machine.on_timeout();
  EXPECT_EQ(failure_of(out), failure_kind::lanes_not_open);
  EXPECT_EQ(effects_of<failed>(out).at(0).why.processes, (tasks{2}));
  EXPECT_EQ(effects_of<failed>(out).at(0).notify, (tasks{1, 2}));
}

TEST(MembershipLeader, FailsIfAProcessIsLostBeforeTheStart) {
  auto machine = with_view();
  const auto out = machine.on_lost(1, 11, ec::unreachable, "silent");
  const auto [why, notify] = effects_of<failed>(out).at(0);
  EXPECT_EQ(why.kind, failure_kind::process_lost_in_start);
  EXPECT_EQ(why.code, ec::unreachable);
  EXPECT_EQ(why.processes, (tasks{1}));
  EXPECT_EQ(why.cause, "silent");
  EXPECT_EQ(notify, (tasks{2}));
  EXPECT_TRUE(machine.on_lost(2, 12, ec::peer_lost, "").empty())
    << "it has failed already";
}

TEST(MembershipLeader, FailsIfAProcessAbortsOrLeavesBeforeTheStart) {
  const message abort{message_kind::abort, "no lanes", {}};
  auto gathering = three_tasks();
  gathering.on(request_of(1, 11));
  EXPECT_TRUE(gathering.on(1, 11, abort).empty())
    << "another process can take its task";
  auto connecting = with_view();
  const auto out = connecting.on(1, 11, abort);
  EXPECT_EQ(failure_of(out), failure_kind::unspecified);
  EXPECT_EQ(effects_of<failed>(out).at(0).why.cause, "no lanes");
  EXPECT_EQ(effects_of<failed>(out).at(0).notify, (tasks{1, 2}));
  auto other = with_view();
  const auto left = other.on(2, 12, {message_kind::leave, {}, {}});
  EXPECT_EQ(receivers(left, message_kind::leave_ack), (tasks{2}));
  EXPECT_EQ(failure_of(left), failure_kind::process_lost_in_start);
  auto own = with_view();
  EXPECT_EQ(
    effects_of<failed>(own.on_abort(ec::peer_lost, "no lanes")).at(0).notify,
    (tasks{1, 2}));
  EXPECT_TRUE(running().on_abort(ec::peer_lost, "no lanes").empty());
}

TEST(MembershipLeader, IgnoresMessagesThatOnlyALeaderSends) {
  for (const auto kind :
       {message_kind::view, message_kind::start, message_kind::leave_ack,
        message_kind::shutdown, message_kind::reject}) {
    auto machine = with_view();
    EXPECT_TRUE(machine.on(1, 11, {kind, "x", {7, {}}}).empty());
    EXPECT_EQ(machine.view().view_id, 1u);
  }
}

// -- the end ------------------------------------------------------------------

TEST(MembershipLeader, AcknowledgesAProcessThatLeaves) {
  auto machine = running();
  const auto left_job = machine.on(1, 11, {message_kind::leave, {}, {}});
  EXPECT_EQ(receivers(left_job, message_kind::leave_ack), (tasks{1}));
  EXPECT_EQ(effects_of<left>(left_job).at(0).task, 1u);
  EXPECT_TRUE(machine.on_lost(1, 11, ec::peer_lost, "").empty())
    << "it has left already";
  EXPECT_TRUE(machine.on_lost(2, 12, ec::unreachable, "").empty())
    << "the members agree on the next view by another protocol";
  EXPECT_EQ(machine.missing(), (tasks{1, 2}));
}

TEST(MembershipLeader, EndsWhenAllHaveLeft) {
  auto machine = running();
  EXPECT_EQ(receivers(machine.leave(), message_kind::shutdown), (tasks{1, 2}));
  EXPECT_TRUE(machine.leave().empty()) << "called again";
  const auto first = machine.on(1, 11, {message_kind::leave, {}, {}});
  EXPECT_TRUE(effects_of<ended>(first).empty());
  const auto last = machine.on_lost(2, 12, ec::peer_lost, "");
  EXPECT_EQ(effects_of<ended>(last).size(), 1u);
}

TEST(MembershipLeader, SaysAgainThatItLeavesIfAConnectionWasCut) {
  auto machine = running();
  EXPECT_TRUE(machine.on_reconnected(2).empty());
  machine.leave();
  EXPECT_EQ(receivers(machine.on_reconnected(2), message_kind::shutdown),
            (tasks{2}));
  auto goes_on = running();
  goes_on.leave_running_job();
  EXPECT_EQ(receivers(goes_on.on_reconnected(1), message_kind::leave),
            (tasks{1}));
}

TEST(MembershipLeader, LeavesAJobThatGoesOn) {
  auto machine = running();
  const auto out = machine.leave_running_job();
  EXPECT_EQ(receivers(out, message_kind::leave), (tasks{1, 2}));
  EXPECT_TRUE(receivers(out, message_kind::shutdown).empty());
  EXPECT_EQ(effects_of<ended>(out).size(), 1u);
  EXPECT_TRUE(machine.leave().empty()) << "it has left already";
}

} // namespace troupe::membership

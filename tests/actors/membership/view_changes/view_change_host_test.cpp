#include "troupe/actors/membership/view_changes/view_change_host.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

using namespace troupe;

namespace {

/// Records what a host asks for.
struct recorder final : view_change_host::owner {
  using message = view_change::message;

  void send(const view_change::process_id& receiver,
            const message& what) override {
    sent.emplace_back(receiver.task, what);
  }
  void set_view_timer(std::chrono::milliseconds delay,
                      std::uint64_t number) override {
    delays.push_back(delay);
    timer = number;
  }
  bool stop_replicas() override {
    ++stops;
    return stops_at_once;
  }
  std::optional<view_change::job_position> stopped_position() override {
    return position;
  }
  bool may_have_ended(std::uint32_t task) override {
    return ending.contains(task);
  }
  void on_installed(const membership::view& next) override {
    views.push_back(next);
  }
  void on_removed(const membership::view& next, bool left) override {
    (left ? left_in : removed_from).push_back(next.view_id);
  }
  void on_silence(const std::vector<std::uint32_t>& silent) override {
    early_alarms.push_back(silent);
  }
  void on_no_majority(const std::vector<std::uint32_t>& silent) override {
    alarms.push_back(silent);
  }
  void on_state_lost() override { ++losses_of_state; }

  std::vector<std::pair<std::uint32_t, message>> sent;
  std::vector<std::chrono::milliseconds> delays;
  std::uint64_t timer = 0;
  int stops = 0;
  bool stops_at_once = true;
  /// Where the replicas have stopped.
  std::optional<view_change::job_position> position =
    view_change::job_position{};
  int losses_of_state = 0;
  std::vector<membership::view> views;
  std::vector<std::uint64_t> removed_from, left_in;
  std::vector<std::vector<std::uint32_t>> alarms, early_alarms;
  std::set<std::uint32_t> ending; ///< Tasks of `may_have_ended`.
};

/// A view of tasks 0, 1 and 2 with incarnations 10, 11 and 12.
membership::view first_view() {
  membership::view out{1, {}};
  for (std::uint32_t t = 0; t < 3; ++t)
    out.members.push_back({t, 10 + t, "127.0.0.1", 1, {t}, 1});
  return out;
}

struct ViewChangeHost : ::testing::Test {
  ViewChangeHost() { host.begin(first_view(), 10); }

  /// Process 1 answers the last message with a message of another kind.
  void answer(view_change::message_kind kind) {
    auto reply = asked.sent.back().second;
    reply.kind = kind;
    reply.known = {};
    reply.proposals.clear();
    if (kind == view_change::message_kind::promise)
      reply.position.push_back({});
    host.on({1, 11}, reply);
  }

  recorder asked;
  view_change_host host{asked};
};

} // namespace

TEST_F(ViewChangeHost, InstallsTheViewThatAMajorityAccepts) {
  host.on_lost(12);
  ASSERT_EQ(asked.sent.back().second.kind, view_change::message_kind::prepare);
  EXPECT_EQ(asked.delays.back(), view_change_host::timer_interval);
  asked.sent.pop_back(); // to process 2
  answer(view_change::message_kind::promise);
  while (asked.sent.back().first != 1)
    asked.sent.pop_back();
  ASSERT_EQ(asked.sent.back().second.kind, view_change::message_kind::propose);
  answer(view_change::message_kind::accept);
  ASSERT_EQ(asked.views.size(), 1u);
  EXPECT_EQ(asked.views[0].view_id, 2u);
  EXPECT_EQ(asked.views[0].find(2), nullptr);
}

TEST_F(ViewChangeHost, AnswersWhenTheReplicasHaveStopped) {
  asked.stops_at_once = false;
  host.begin(first_view(), 11);
  view_change::message prepare;
  prepare.kind = view_change::message_kind::prepare;
  prepare.view_id = 1;
  prepare.number = {1, 0};
  host.on({0, 10}, prepare);
  EXPECT_EQ(asked.stops, 1);
  EXPECT_TRUE(asked.sent.empty());
  host.on_stopped();
  ASSERT_EQ(asked.sent.size(), 1u);
  EXPECT_EQ(asked.sent[0].second.kind, view_change::message_kind::promise);
}

TEST_F(ViewChangeHost, SaysThatTheStateIsLost) {
  asked.position.reset(); // this process and the other one have joined
  host.on_dead(12);
  auto reply = asked.sent.back().second;
  reply.kind = view_change::message_kind::promise;
  reply.known = {};
  host.on({1, 11}, reply);
  EXPECT_EQ(asked.losses_of_state, 1);
}

TEST_F(ViewChangeHost, OnlyTheLastTimerHasAnEffect) {
  host.on_lost(12);
  const auto count = asked.sent.size();
  host.on_timeout(asked.timer - 1);
  EXPECT_EQ(asked.sent.size(), count);
  host.on_timeout(asked.timer);
  EXPECT_GT(asked.sent.size(), count) << "what was not answered is sent again";
}

TEST_F(ViewChangeHost, ReportsAMissingMajorityOnce) {
  host.on_lost(11);
  host.on_lost(12);
  const std::vector<std::vector<std::uint32_t>> one{{1, 2}};
  EXPECT_EQ(asked.early_alarms, one);
  EXPECT_TRUE(asked.alarms.empty()) << "it is too early to give up";
  for (int i = 0; i < 3; ++i)
    host.on_timeout(asked.timer);
  EXPECT_EQ(asked.alarms, one);
  EXPECT_EQ(asked.early_alarms, one);
  EXPECT_TRUE(asked.views.empty());
}

TEST_F(ViewChangeHost, SaysAgainThatAMajorityIsMissingIfASurvivorEnds) {
  host.on_lost(11);
  host.on_lost(12);
  host.on_timeout(asked.timer);
  ASSERT_EQ(asked.alarms.size(), 1u);
  host.on_survivors({{1, 11}});
  host.on_dead(11);
  EXPECT_TRUE(host.is_dead(11));
  host.on_timeout(asked.timer);
  EXPECT_EQ(asked.alarms.size(), 2u);
  EXPECT_TRUE(asked.views.empty()) << "process 1 may have admitted others";
}

TEST_F(ViewChangeHost, DoesNotMissAProcessThatMayHaveEnded) {
  asked.ending = {2};
  host.on_lost(11);
  host.on_lost(12);
  host.on_timeout(asked.timer);
  EXPECT_TRUE(asked.alarms.empty());
  asked.ending.clear(); // it has not
  host.on_timeout(asked.timer);
  EXPECT_EQ(asked.alarms, (std::vector<std::vector<std::uint32_t>>{{1, 2}}));
}

TEST_F(ViewChangeHost, AProcessThatHasLeftIsNotAskedAgain) {
  host.on_dead(12);
  for (const auto& [task, message] : asked.sent)
    EXPECT_EQ(task, 1u);
}

TEST_F(ViewChangeHost, SaysThatThisProcessIsExcluded) {
  auto next = first_view();
  next.view_id = 2;
  next.members.erase(next.members.begin());
  next.members[0].replicas = {0, 1};
  view_change::message install;
  install.kind = view_change::message_kind::install;
  install.view_id = 2;
  install.proposals.push_back({{1, 1}, {next, {}, 1}});
  host.on({1, 11}, install);
  EXPECT_EQ(asked.removed_from, (std::vector<std::uint64_t>{2}));
}

TEST_F(ViewChangeHost, DoesNothingBeforeTheStartAndAfterTheEnd) {
  host.end();
  host.on_lost(12);
  host.on_timeout(1);
  recorder other;
  view_change_host early{other};
  early.on_lost(12);
  early.on_dead(11);
  EXPECT_TRUE(asked.sent.empty() && other.sent.empty());
}

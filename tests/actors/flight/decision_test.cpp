#include "troupe/actors/flight/decision.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

constexpr std::int64_t ms = 1'000'000;
using enum flight_event_kind;

flight_event at(std::int64_t time_ns, flight_event_kind kind,
                std::uint64_t view = 0, std::string text = {}) {
  flight_event x{.kind = kind, .time_ns = time_ns, .view = view};
  x.text = std::move(text);
  return x;
}

std::vector<decision> decisions(const std::vector<flight_event>& events,
                                std::size_t max = 8) {
  const flight_identity identity{
    "job", {"worker 0", "worker 1", "worker 2"}, 0, 1, 0};
  return decisions_of(events, identity, 100 * ms, max);
}

std::vector<flight_event> whole_change() {
  auto copied = at(30 * ms, state_copied);
  copied.bytes = 4096;
  return {at(10 * ms, view_change_begun, 1, "worker 2 was lost"),
          at(12 * ms, replicas_stopped),
          at(17 * ms, view_agreed, 2, "worker 0, worker 1"),
          at(20 * ms, lanes_opened, 2),
          at(21 * ms, positions_gathered),
          copied,
          at(31 * ms, view_entered)};
}

TEST(Decisions, AViewChangeHasItsPhasesInMilliseconds) {
  const auto all = decisions(whole_change());
  ASSERT_EQ(all.size(), 1u);
  const auto& x = all[0];
  EXPECT_EQ(x.text, "view change begun: worker 2 was lost");
  EXPECT_TRUE(x.complete);
  EXPECT_EQ(x.ago_ms, 90u);
  const std::vector<decision_phase> expected{
    {"replicas stopped", 2000, 0},
    {"view 2 agreed (worker 0, worker 1)", 5000, 0},
    {"lanes opened", 3000, 0},
    {"positions gathered", 1000, 0},
    {"state copied", 9000, 4096},
    {"view entered", 1000, 0}};
  EXPECT_EQ(x.phases, expected);
  EXPECT_EQ(to_text(x),
            "0.090 s ago: view change begun: worker 2 was lost; replicas "
            "stopped 2.0 ms, view 2 agreed (worker 0, worker 1) 5.0 ms, lanes "
            "opened 3.0 ms, positions gathered 1.0 ms, state copied 9.0 ms "
            "(4096 bytes), view entered 1.0 ms; total 21.0 ms");
}

TEST(Decisions, TheAgreedViewSaysWhoWasLost) {
  for (const std::string reason : {"the processes change their view",
                                   "worker 2 was lost: it was killed"}) {
    auto events = whole_change();
    events[0].text = reason;
    auto lost = at(17 * ms, process_lost, 2);
    lost.process = 2;
    events.insert(events.begin() + 3, lost);
    const bool is_known = reason.find("worker 2") != std::string::npos;
    EXPECT_EQ(decisions(events).at(0).text,
              "view change begun: " + reason
                + (is_known ? "" : "; worker 2 was lost"));
  }
}

TEST(Decisions, AViewChangeThatHasNotEndedSaysSo) {
  const auto all =
    decisions({at(10 * ms, view_change_begun, 1, "worker 2 was lost"),
               at(12 * ms, replicas_stopped),
               at(14 * ms, no_majority, 0, "worker 1, worker 2")});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].complete);
  EXPECT_NE(to_text(all[0]).find("no majority (no answer from worker 1, worker "
                                 "2) 2.0 ms; total 4.0 ms; it has not ended"),
            std::string::npos)
    << to_text(all[0]);
}

TEST(Decisions, APhaseBelongsToTheChangeOfItsView) {
  // The change to view 3 begins before the processes have entered view 2.
  const auto all = decisions(
    {at(10 * ms, view_change_begun, 1, "a loss"),
     at(11 * ms, replicas_stopped, 1), at(12 * ms, view_agreed, 2, "worker 0"),
     at(20 * ms, view_change_begun, 2, "a join"), at(21 * ms, view_entered, 2),
     at(22 * ms, replicas_stopped, 2), at(24 * ms, view_agreed, 3, "all"),
     at(25 * ms, view_entered, 3)});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].phases,
            (std::vector<decision_phase>{{"replicas stopped", 1000, 0},
                                         {"view 2 agreed (worker 0)", 1000, 0},
                                         {"view entered", 9000, 0}}));
  EXPECT_EQ(all[1].phases,
            (std::vector<decision_phase>{{"replicas stopped", 2000, 0},
                                         {"view 3 agreed (all)", 2000, 0},
                                         {"view entered", 1000, 0}}));
  EXPECT_TRUE(all[0].complete);
  EXPECT_TRUE(all[1].complete);
}

TEST(Decisions, StepsAreNoDecisions) {
  EXPECT_TRUE(decisions({at(1, run_begun), at(2, steps_granted),
                         at(3, step_committed), at(4, lanes_opened, 1)})
                .empty());
}

TEST(Decisions, OnlyTheLastOnesAreReturned) {
  std::vector<flight_event> events;
  for (int i = 0; i < 5; ++i) {
    auto x = at(i * ms, process_left);
    x.process = 1;
    events.push_back(x);
  }
  const auto all = decisions(events, 2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].time_ns, 3 * ms);
  EXPECT_EQ(all[1].text, "worker 1 left the job");
}

TEST(Decisions, AProcessThatIsNotNamedHasItsNumber) {
  auto x = at(1, disconnected, 0, "closed");
  x.process = 9;
  EXPECT_EQ(decisions({x}).at(0).text,
            "the connection to process 9 ended: closed");
}

} // namespace

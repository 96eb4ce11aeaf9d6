#include "troupe/actors/membership/peers/membership_log.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

using namespace troupe;

namespace {

using enum flight_event_kind;

/// The log of process 0 of a job of three.
struct MembershipLog : ::testing::Test {
  using event = std::pair<flight_event_kind, std::uint32_t>;

  MembershipLog() {
    options.processes.names = {"worker 0", "worker 1", "worker 2"};
    options.peers = std::make_shared<peer_table>(3);
    options.peers->recorder = recorder;
  }

  /// Kinds of the events, and the processes that they are about.
  std::vector<event> events() const {
    std::vector<event> out;
    for (const auto& x : recorder->events())
      out.emplace_back(x.kind, x.process);
    return out;
  }
  static membership::view
  view_of(std::uint64_t view_id,
          const std::vector<std::pair<std::uint32_t, std::uint64_t>>& members) {
    membership::view out{view_id, {}};
    for (const auto& [task, incarnation] : members)
      out.members.push_back({task, incarnation, "host", 1, {task}, 1});
    return out;
  }

  const std::shared_ptr<flight_recorder> recorder =
    std::make_shared<flight_recorder>(100);
  membership_options options;
  membership_log log{options};
};

TEST_F(MembershipLog, TellsARestartedProcessFromOneThatHasConnectedAgain) {
  options.peers->entries[1].incarnation = 11;
  log.note_connected(1, 11);
  log.note_connected(1, 21);
  log.note_connected(2, 12);
  EXPECT_EQ(events(),
            (std::vector<event>{
              {connected, 1}, {process_restarted, 1}, {connected, 2}}));
}

TEST_F(MembershipLog, NamesTheProcessesThatAViewLosesAndGains) {
  options.peers->view = view_of(1, {{0, 10}, {1, 11}});
  log.note_installed(view_of(2, {{0, 10}, {2, 12}}));
  EXPECT_EQ(events(), (std::vector<event>{{view_agreed, flight_event::none},
                                          {process_lost, 1},
                                          {process_joined, 2}}));
  EXPECT_EQ(recorder->events().front().text, "worker 0, worker 2");
}

TEST_F(MembershipLog, DoesNotCallAProcessLostThatHasLeft) {
  options.peers->view = view_of(1, {{0, 10}, {1, 11}});
  options.peers->entries[1].has_left = true;
  log.note_installed(view_of(2, {{0, 10}}));
  EXPECT_EQ(events(), (std::vector<event>{{view_agreed, flight_event::none},
                                          {process_left, 1}}));
}

TEST_F(MembershipLog, CallsNoMemberOfTheFirstViewJoined) {
  log.note_installed(view_of(1, {{0, 10}, {1, 11}}));
  EXPECT_EQ(events(), (std::vector<event>{{view_agreed, flight_event::none}}));
}

TEST_F(MembershipLog, CallsAProcessUnreachableThatWasSilent) {
  log.note_lost(1, net::close_reason::timed_out, "it sent nothing");
  log.note_lost(2, net::close_reason::closed, "the stream ends");
  EXPECT_EQ(events(),
            (std::vector<event>{
              {disconnected, 1}, {process_unreachable, 1}, {disconnected, 2}}));
}

} // namespace

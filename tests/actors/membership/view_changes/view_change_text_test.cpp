#include "troupe/actors/membership/view_changes/view_change_text.hpp"

#include <gtest/gtest.h>

namespace {

using troupe::view_change::change_reasons;

const std::vector<std::string> four_processes{"chief 0", "worker 1", "worker 2",
                                              "worker 3"};

/// The text in chief 0, which has lost no process.
std::string text_in_chief(const change_reasons& why) {
  return troupe::describe(why, {}, 0, four_processes);
}

TEST(ViewChangeText, NamesTheLossesOfThisProcess) {
  EXPECT_EQ(troupe::describe({.proposer = 1, .unreachable = {{1, 2}}},
                             {{2, "was lost: the stream ends"},
                              {3, "was disconnected: it was silent"}},
                             0, four_processes),
            "worker 2 was lost: the stream ends; worker 3 was disconnected: it "
            "was silent");
}

TEST(ViewChangeText, NamesWhatAnotherProcessHasSaid) {
  EXPECT_EQ(text_in_chief(
              {.proposer = 1, .unreachable = {{1, 2}, {3, 2}}, .dead = {2}}),
            "worker 1 has begun a change of the view: it cannot reach worker "
            "2; worker 3 cannot reach worker 2; worker 2 has ended");
  EXPECT_EQ(text_in_chief({.proposer = 1}),
            "worker 1 has begun a change of the view");
}

TEST(ViewChangeText, NamesTheReasonsThatAreNoLosses) {
  EXPECT_EQ(text_in_chief({.proposer = 0, .leaving = {2}}), "worker 2 leaves");
  EXPECT_EQ(text_in_chief({.proposer = 0, .joining = {3}}), "worker 3 joins");
  EXPECT_EQ(text_in_chief({.proposer = 0, .without_lanes = {1}}),
            "chief 0 cannot open its lanes to worker 1");
  EXPECT_EQ(text_in_chief({.proposer = 2, .renewal = true}),
            "worker 2 has begun a change of the view: a connection or a lane "
            "between two processes was cut");
  EXPECT_EQ(text_in_chief({}), "the processes of the job change their view");
}

} // namespace

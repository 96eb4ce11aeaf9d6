#include "troupe/actors/membership/view_changes/view_change_frame.hpp"
#include "troupe/net/codec/codec.hpp"

#include <gtest/gtest.h>

using namespace troupe;

namespace {

/// Reads a message in a job of two tasks. @returns why it is malformed.
std::string problem_of(const view_change::message& sent) {
  view_change::message received;
  auto problem = read_view_change(
    {net::frame_kind::oneway, net::priority::control, 0, 1, net::encode(sent)},
    2, received);
  if (problem.empty()) {
    EXPECT_EQ(net::encode(received), net::encode(sent));
  }
  return problem;
}

view_change::message joined_by(const membership::member& candidate) {
  view_change::message out;
  out.known.joining = {candidate};
  return out;
}

TEST(ViewChangeFrame, IsReadIfItNamesTasksOfTheJob) {
  auto message = joined_by({1, 11, "host", 1, {}, 1});
  message.proposals.emplace_back();
  message.proposals.back().proposal.next = {2, {{1, 11, "host", 1, {0}, 1}}};
  EXPECT_EQ(problem_of(message), "");
}

TEST(ViewChangeFrame, IsMalformedIfACandidateCannotBeReached) {
  const std::string problem =
    "a message of a view change names an impossible process";
  EXPECT_EQ(problem_of(joined_by({2, 12, "host", 1, {}, 1})), problem);
  EXPECT_EQ(problem_of(joined_by({1, 11, "", 1, {}, 1})), problem);
  EXPECT_EQ(problem_of(joined_by({1, 11, "host", 0, {}, 1})), problem);
}

TEST(ViewChangeFrame, IsMalformedIfAViewHasAnotherTask) {
  view_change::message message;
  message.proposals.emplace_back();
  message.proposals.back().proposal.next = {2, {{7, 11, "host", 1, {0}, 1}}};
  EXPECT_EQ(problem_of(message),
            "a message of a view change names task 7 of 2");
}

TEST(ViewChangeFrame, IsMalformedIfItIsCutOff) {
  auto payload = net::encode(view_change::message{});
  payload.pop_back();
  view_change::message received;
  EXPECT_NE(read_view_change({net::frame_kind::oneway, net::priority::control,
                              0, 1, std::move(payload)},
                             2, received),
            "");
}

} // namespace

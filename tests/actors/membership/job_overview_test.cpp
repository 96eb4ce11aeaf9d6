#include "troupe/actors/membership/job_overview.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

/// Worker 0 of two, in view 2, which wants to change the view.
job_overview first_of_two() {
  job_overview out{
    std::make_shared<peer_table>(2), "job", {"worker 0", "worker 1"}, 7, 0};
  out.peers->started = true;
  out.peers->view = {2, {{0, 7, "host", 1, {0}, 1}, {1, 8, "host", 1, {1}, 1}}};
  out.peers->stop.requested = true;
  return out;
}

TEST(JobOverview, SaysWhomAViewChangeWaitsFor) {
  job_status status;
  add_overview(first_of_two(), status);
  EXPECT_EQ(status.view_id, 2u);
  EXPECT_EQ(status.members.at(0).state, member_state::active);
  EXPECT_NE(status.stall_reason.find("worker 1"), std::string::npos)
    << status.stall_reason;
  EXPECT_FALSE(status.missing.empty());
}

TEST(JobOverview, SaysThatTheJobGoesOnWithoutAnExcludedProcess) {
  const auto overview = first_of_two();
  overview.peers->view = {3, {{1, 8, "host", 1, {0, 1}, 1}}};
  overview.peers->excluded = true;
  job_status status;
  add_overview(overview, status);
  EXPECT_EQ(status.members.at(0).state, member_state::unreachable);
  EXPECT_EQ(status.stall_reason,
            "the job goes on without this process, from view 3 on; ask one of "
            "its other processes");
  EXPECT_TRUE(status.missing.empty());
}

TEST(JobOverview, SaysThatAProcessHasLeft) {
  const auto overview = first_of_two();
  overview.peers->excluded = overview.peers->has_left = true;
  job_status status;
  add_overview(overview, status);
  EXPECT_EQ(status.members.at(0).state, member_state::left);
  EXPECT_EQ(status.stall_reason, "this process has left its job");
}

} // namespace
} // namespace troupe

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/group/recovering_group.hpp"
#include "troupe/actors/membership/elastic_group/elastic_group.hpp"
#include "troupe/actors/membership/elastic_group/lane_failure.hpp"
#include "troupe/actors/membership/elastic_group/unopened_lanes.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A process that joins the job of worker 0.
struct joining_process {
  joining_process() {
    options.peers = std::make_shared<peer_table>(2);
    options.peers->own_incarnation = 8;
    options.request_results = [this](std::uint64_t call) {
      asked.push_back(call);
      if (on_request)
        on_request();
    };
    options.joins = true;
    options.task = 1;
    options.name = "worker 1";
    group = make_elastic_group(options, {1, {{0, 7, "host", 1, {0, 1}, 2}}});
  }

  elastic_group_options options;
  std::vector<std::uint64_t> asked;
  std::function<void()> on_request;
  std::unique_ptr<replica_group> group;
};

TEST(ElasticGroup, GetsTheResultsOfCallsFromTheMembers) {
  joining_process it;
  it.on_request = [&] {
    it.options.peers->update([&] {
      it.options.peers->log.results = {"first", "second"};
      ++it.options.peers->log.answers;
    });
  };
  EXPECT_EQ(it.group->result_of(1), "second");
  EXPECT_EQ(it.group->result_of(2), std::nullopt); // no member has made it
  EXPECT_EQ(it.asked, (std::vector<std::uint64_t>{1, 2}));
}

// Its texts reach the members with its name when it has joined.
TEST(ElasticGroup, KnowsTheNameOfItsProcessBeforeItJoins) {
  const joining_process it;
  EXPECT_EQ(it.group->process_name(it.group->replica_placement().process),
            "worker 1");
}

// Otherwise the process would ask again until it wants to join.
TEST(ElasticGroup, CannotJoinWithoutAConnection) {
  joining_process it;
  it.options.peers->update([&] {
    it.options.peers->failed = {.code = ec::peer_lost,
                                .cause = "all connections have ended"};
  });
  try {
    it.group->result_of(0);
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::peer_lost);
    EXPECT_STREQ(e.what(), "this process could not join the running job: all "
                           "connections have ended");
  }
}

/// A process whose views a test decides on. Worker 0 is the other member.
struct member_process {
  explicit member_process(bool joins = false) {
    options.peers = std::make_shared<peer_table>(2);
    auto& peers = *options.peers;
    peers.own_incarnation = 8;
    const auto renew = [&peers] {
      peers.update([&] { ++peers.view.view_id; });
    };
    options.make_group = [this](const membership::view& of) {
      tried.push_back(of.view_id);
      if (fail && tried.size() > 1)
        fail(of);
      return make_sequential_group({.replicas = 2});
    };
    options.on_stopped = [] {};
    options.on_ask = [this, &peers] {
      peers.update([&] { peers.view = view_with_both(2); });
      tried.push_back(0);
    };
    options.on_renewal_wanted = [renew](std::uint64_t) { renew(); };
    options.on_no_lanes = [this](std::uint64_t view_id, std::uint64_t who,
                                 bool is_newer) {
      no_lanes.push_back({view_id, who, is_newer});
      fail = nullptr; // the next view has another member
    };
    options.on_giving_up = [this] { has_given_up = true; };
    options.joins = joins;
    options.task = 1;
    peers.view = joins ? membership::view{1, {{0, 7, "host", 1, {0, 1}, 2}}}
                       : view_with_both(1);
    group = make_elastic_group(options, peers.view);
  }

  static membership::view view_with_both(std::uint64_t id) {
    return {id, {{0, 7, "host", 1, {0}, 1}, {1, 8, "host", 2, {1}, 1}}};
  }

  bool enter() { return group->enter_next_view({{4, 7}}, 0ms); }
  std::string error_of_enter() {
    try {
      enter();
    } catch (const job_error& e) {
      code = e.code;
      return e.what();
    }
    return "no error";
  }

  struct report {
    std::uint64_t view_id, incarnation;
    bool is_newer;
  };
  elastic_group_options options;
  std::function<void(const membership::view&)> fail;
  std::vector<std::uint64_t> tried; ///< Ids of the views.
  std::vector<report> no_lanes;
  bool has_given_up = false;
  std::optional<ec> code; ///< Of the last error.
  std::unique_ptr<replica_group> group;
};

void have_no_lanes(const membership::view&) {
  throw lane_failure{ec::stalled, "worker 0 did not open its lanes", {0}};
}

TEST(ElasticGroup, ReportsAMemberToWhichNoLanesCanBeOpened) {
  member_process it;
  it.fail = have_no_lanes;
  EXPECT_TRUE(it.enter());
  ASSERT_EQ(it.no_lanes.size(), 1u);
  EXPECT_EQ(it.no_lanes[0].view_id, 1 + unopened_lanes::max_failures);
  EXPECT_EQ(it.no_lanes[0].incarnation, 7u);
  EXPECT_FALSE(it.no_lanes[0].is_newer);
  EXPECT_FALSE(it.has_given_up);
}

TEST(ElasticGroup, LeavesIfItHasJoinedAndCannotOpenItsLanes) {
  member_process it{true};
  it.fail = have_no_lanes;
  EXPECT_EQ(it.error_of_enter(),
            "this process has joined the job, and cannot open its lanes to a "
            "process that was there before: worker 0 did not open its lanes; "
            "so this process has left its job");
  EXPECT_EQ(it.code, ec::unreachable);
  EXPECT_TRUE(it.has_given_up);
  EXPECT_TRUE(it.group->is_excluded());
}

void lack_descriptors(const membership::view&) {
  throw std::runtime_error("Too many open files");
}

// If the processes of a host share the cause, it may be gone in the next view.
TEST(ElasticGroup, RenewsTheViewIfItLacksSomethingForItself) {
  member_process it;
  it.fail = [](const membership::view& of) {
    if (of.view_id < 5)
      lack_descriptors(of);
  };
  EXPECT_TRUE(it.enter());
  EXPECT_EQ(it.tried.back(), 5u);
  EXPECT_FALSE(it.has_given_up);
  EXPECT_FALSE(it.group->is_excluded());
}

// The others have what this process lacks.
TEST(ElasticGroup, LeavesIfItLacksSomethingForItself) {
  member_process it;
  it.fail = lack_descriptors;
  EXPECT_EQ(it.error_of_enter(),
            "view 5 cannot be entered: Too many open files; so this process "
            "has left its job");
  EXPECT_EQ(it.code, ec::unreachable);
  EXPECT_TRUE(it.has_given_up);
  EXPECT_TRUE(it.group->is_excluded());
  try {
    it.group->run({});
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::unreachable) << "as of its first call";
  }
}

// All processes of a host may lack it, and then each of them leaves.
TEST(ElasticGroup, MayHaveTheLastStateUnlessTheOthersGoOn) {
  member_process it;
  const auto& recovers = dynamic_cast<const recovering_group&>(*it.group);
  EXPECT_FALSE(recovers.may_have_last_state());
  it.fail = lack_descriptors;
  it.error_of_enter();
  EXPECT_TRUE(recovers.may_have_last_state());
  it.options.peers->update([&] { it.options.peers->excluded = true; });
  EXPECT_FALSE(recovers.may_have_last_state());
}

// Then the program can save its state.
TEST(ElasticGroup, DoesNotLeaveAsTheOnlyProcess) {
  member_process it;
  it.options.peers->update([&] {
    it.options.peers->view.members.erase(
      it.options.peers->view.members.begin());
  });
  it.fail = lack_descriptors;
  EXPECT_EQ(it.error_of_enter(),
            "view 5 cannot be entered: Too many open files");
  EXPECT_EQ(it.code, ec::unreachable);
  EXPECT_FALSE(it.has_given_up);
  EXPECT_FALSE(it.group->is_excluded());
}

TEST(ElasticGroup, PassesABugThrough) {
  member_process it;
  it.fail = [](auto&) { throw std::logic_error("a shape"); };
  EXPECT_THROW(it.enter(), std::logic_error);
  EXPECT_FALSE(it.has_given_up);
  EXPECT_EQ(it.tried.back(), 2u);
}

TEST(ElasticGroup, RenewsAViewTenTimesAtMost) {
  member_process it;
  it.fail = [](auto&) { throw job_error(ec::stalled, "a lane was cut"); };
  const auto text = it.error_of_enter();
  EXPECT_NE(text.find("renewed their view too often"), std::string::npos)
    << text;
  EXPECT_EQ(it.tried.back(), 11u);
}

TEST(ElasticGroup, EndsTheWaitForAViewIfItIsToldToStop) {
  member_process it;
  it.options.peers->stop.requested = true; // no view follows
  it.options.peers->end_runs(
    {.code = ec::cancelled, .cause = "worker 1 was told to stop"});
  EXPECT_EQ(it.error_of_enter(), "worker 1 was told to stop");
  EXPECT_EQ(it.code, ec::cancelled);
  EXPECT_FALSE(it.group->is_excluded()); // it saves its state
}

// A callback of a fit may call another fit.
TEST(ElasticGroup, ReturnsTheStopRequestThatItReplaces) {
  member_process it;
  auto& recovers = dynamic_cast<recovering_group&>(*it.group);
  EXPECT_FALSE(recovers.set_stop_request([] { return true; }));
  const auto outer = recovers.set_stop_request([] { return false; });
  ASSERT_TRUE(outer);
  EXPECT_TRUE(outer());
  EXPECT_FALSE(recovers.set_stop_request(outer)());
  EXPECT_TRUE(it.options.peers->stop.is_to_stop());
}

TEST(ElasticGroup, EndsTheWaitToJoinIfItIsToldToStop) {
  joining_process it;
  it.options.peers->end_runs(
    {.code = ec::cancelled, .cause = "worker 1 was told to stop"});
  try {
    it.group->result_of(0);
    FAIL() << "no error";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::cancelled);
  }
}

} // namespace
} // namespace troupe

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/membership/elastic_group.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

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

} // namespace
} // namespace troupe

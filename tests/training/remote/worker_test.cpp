#include "nodes.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;

/// The workers of a job with two nodes, and their client.
struct two_workers {
  two_workers() {
    const communication_options communication;
    worker_arguments arguments;
    arguments.job = "numbers";
    arguments.addresses = there.addresses;
    arguments.devices = {"cpu:0"};
    arguments.bytes_per_pack = communication.bytes_per_pack;
    arguments.timeout_ms = arguments.callback_timeout_ms =
      arguments.start_timeout_ms = 10'000;
    arguments.first_request = 3;
    for (const auto& address : there.addresses) {
      nodes.push_back(std::make_unique<remote_node>(here, address));
      workers.push_back(
        nodes.back()->spawn<worker_actor>(role_of_steps("echo"), arguments));
      ++arguments.index;
    }
    for (const auto& one : join_all(here.system(), workers, patience, 0ms))
      EXPECT_TRUE(one.status.done) << one.status.error_text;
  }

  /// Returns the reply of the first worker.
  worker_reply run(std::uint64_t number) {
    return run_all(here.system(), workers,
                   {.function = "who",
                    .number = number,
                    .common = {tensor::full({}, 5)},
                    .placement = {{0}, {1}}},
                   patience, patience) // another worker may refuse it first
      .front();
  }
  worker_reply results(std::uint64_t number) {
    return results_of(here.system(), workers.front(), number, {0}, patience);
  }

  const several_nodes there{2, "echo", echo};
  runtime here;
  std::vector<std::unique_ptr<remote_node>> nodes;
  worker_list workers;
};

void expect_refused(const worker_reply& reply, const std::string& text) {
  EXPECT_FALSE(reply.status.done);
  EXPECT_EQ(reply.status.code, ec::protocol);
  EXPECT_EQ(reply.status.error_text, text);
}

/// A request that was lost, or that is sent again, is noticed.
TEST(Worker, RefusesARequestThatIsNotTheNext) {
  two_workers it;
  expect_refused(it.run(2), "received step 2, expected step 3");
  expect_refused(it.run(4), "received step 4, expected step 3");
  EXPECT_TRUE(it.run(3).status.done);
  expect_refused(it.run(3), "received step 3, expected step 4");
  EXPECT_TRUE(it.run(4).status.done);
}

TEST(Worker, HasTheResultsOfTheLastRequestOnly) {
  two_workers it;
  expect_refused(it.results(3), "the results of step 3 are not known");
  ASSERT_TRUE(it.run(3).status.done);
  const auto known = it.results(3);
  ASSERT_TRUE(known.status.done) << known.status.error_text;
  ASSERT_EQ(known.results.size(), 2u); // the replica, and its input
  EXPECT_EQ(known.results[1].item<float>(), 5);
  ASSERT_TRUE(it.run(4).status.done);
  expect_refused(it.results(3), "the results of step 3 are not known");
}

} // namespace

#include "nodes.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST(RemoteStrategyFaults, UnknownNameListsTheRegisteredOnes) {
  const several_nodes there{2, "echo", echo};
  runtime here;
  const auto why = failure_of([&] {
    remote_strategy{here, there.addresses, {.steps = "ecko"}};
  });
  EXPECT_EQ(why.code, ec::refused);
  EXPECT_TRUE(has(why.what(), there.addresses[0])) << why.what();
  EXPECT_TRUE(has(why.what(), "\"steps/ecko\"; it has: steps/echo"))
    << why.what();
  remote_strategy on{here, there.addresses, {.steps = "echo"}};
  try {
    on.run("whom");
    ADD_FAILURE() << "ran";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "the steps \"echo\" have no \"whom\" to run; they "
                           "have: fail, who");
  }
  try {
    on.call("who");
    ADD_FAILURE() << "called";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "the steps \"echo\" have no \"who\" to call; they "
                           "have: said");
  }
  EXPECT_THROW(on.run("who", per_replica<tensors>{{{}}}),
               std::invalid_argument);
  EXPECT_EQ(on.run("who").size(), 2u) << "a mistake breaks nothing";
}

TEST(RemoteStrategyFaults, ExceptionOfAStepNamesTheNodeAndGivesUpAllNodes) {
  const several_nodes there{3, "echo", echo};
  runtime here;
  remote_strategy on{here, there.addresses, {.steps = "echo"}};
  on.run("who");
  const auto why = failure_of([&] { on.run("fail"); });
  EXPECT_EQ(why.code, ec::invalid);
  EXPECT_EQ(why.what(), "node " + there.addresses[1]
                          + " (worker 1), function \"fail\", step 1: the disk "
                            "went away");
  const auto later = failure_of([&] { on.run("who"); });
  EXPECT_EQ(later.code, ec::cancelled);
  EXPECT_TRUE(has(later.what(), "the disk went away")) << later.what();
  for (const auto& address : there.addresses) {
    remote_node node{here, address};
    expect_no_roles_on(node);
  }
  remote_strategy again{here, there.addresses, {.steps = "echo"}};
  EXPECT_EQ(again.run("who").size(), 3u);
}

TEST(RemoteStrategyFaults, FailedFactoryIsReportedImmediately) {
  const several_nodes there{
    2, "picky", [](const strategy& on, const std::string&) -> step_functions {
      if (on.worker() == 0)
        throw std::runtime_error("no such file");
      return {};
    }};
  runtime here;
  const auto why = failure_of([&] {
    remote_strategy{here, there.addresses, {.steps = "picky"}};
  });
  EXPECT_EQ(why.what(), "node " + there.addresses[0]
                          + " (worker 0), starting \"picky\": no such file");
  const auto device = failure_of([&] {
    remote_strategy{
      here, there.addresses, {.steps = "picky", .devices = {"gpu:7"}}};
  });
  EXPECT_TRUE(has(device.what(), "gpu:7")) << device.what();
}

TEST(RemoteStrategyFaults, UnreachableNodeIsNamed) {
  several_nodes there{2, "echo", echo};
  there.all[1].reset();
  runtime here;
  const auto why = failure_of([&] {
    remote_strategy{here, there.addresses, {.steps = "echo"}};
  });
  EXPECT_EQ(why.code, ec::peer_lost);
  EXPECT_TRUE(has(why.what(), there.addresses[1])) << why.what();
}

TEST(RemoteStrategyFaults, NodeShutdownBetweenStepsIsReported) {
  several_nodes there{2, "echo", echo};
  runtime here;
  remote_strategy on{here, there.addresses, {.steps = "echo"}};
  on.run("who");
  there.all[1].reset();
  const auto why = failure_of([&] { on.run("who"); });
  EXPECT_EQ(why.code, ec::peer_lost);
  EXPECT_TRUE(has(why.what(), "node " + there.addresses[1]
                                + " (worker 1), function \"who\", step 1: "))
    << why.what();
}

TEST(RemoteStrategyFaults, InvalidOptionsAreRejectedWithASentence) {
  runtime here;
  const auto said = [&](const std::vector<std::string>& nodes,
                        remote_strategy_options options) -> std::string {
    try {
      remote_strategy{here, nodes, options};
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string one = "127.0.0.1:1";
  EXPECT_TRUE(has(said({}, {.steps = "a"}), "list of nodes is empty"));
  EXPECT_TRUE(has(said({one}, {}), "steps is empty"));
  EXPECT_TRUE(has(said({one, one}, {.steps = "a"}), one + " is given twice"));
  EXPECT_TRUE(has(said({"nowhere"}, {.steps = "a"}), "nowhere"));
  EXPECT_TRUE(has(said({one}, {.steps = "a", .devices = {}}), "devices"));
  EXPECT_TRUE(has(said({one}, {.steps = "a", .threads = 0}), "threads"));
  EXPECT_TRUE(
    has(said({one}, {.steps = "a", .answers = 0ms}), "request_timeout"));
}

} // namespace

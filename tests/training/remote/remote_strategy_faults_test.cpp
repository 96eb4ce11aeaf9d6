#include "nodes.hpp"
#include "troupe/net/io/reserved_ports.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST(RemoteStrategyFaults, UnknownNameListsTheRegisteredOnes) {
  const several_nodes cluster_nodes{2, "echo", echo};
  runtime local_runtime;
  const auto error = job_error_of([&] {
    remote_strategy{local_runtime, cluster_nodes.addresses, {.steps = "ecko"}};
  });
  EXPECT_EQ(error.code, ec::refused);
  EXPECT_TRUE(contains(error.what(), cluster_nodes.addresses[0]))
    << error.what();
  EXPECT_TRUE(contains(error.what(), "\"steps/ecko\"; it has: steps/echo"))
    << error.what();
  remote_strategy remote{
    local_runtime, cluster_nodes.addresses, {.steps = "echo"}};
  try {
    remote.run("whom");
    ADD_FAILURE() << "ran";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "the steps \"echo\" have no \"whom\" to run; they "
                           "have: fail, who");
  }
  try {
    remote.call("who");
    ADD_FAILURE() << "called";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "the steps \"echo\" have no \"who\" to call; they "
                           "have: said");
  }
  EXPECT_THROW(remote.run("who", per_replica<tensors>{{{}}}),
               std::invalid_argument);
  EXPECT_EQ(remote.run("who").size(), 2u) << "a mistake breaks nothing";
}

TEST(RemoteStrategyFaults, ExceptionOfAStepNamesTheNodeAndKeepsAllNodes) {
  const several_nodes cluster_nodes{3, "echo", echo};
  runtime local_runtime;
  remote_strategy remote{
    local_runtime, cluster_nodes.addresses, {.steps = "echo"}};
  remote.run("who");
  const auto why = job_error_of([&] { remote.run("fail"); });
  EXPECT_EQ(why.code, ec::invalid);
  EXPECT_EQ(why.what(), "node " + cluster_nodes.addresses[1]
                          + " (worker 1), function \"fail\", step 1: the disk "
                            "went away");
  const auto found = remote.run("who", {tensor::full({}, 5)});
  ASSERT_EQ(found.size(), 3u);
  for (std::size_t id = 0; id < 3; ++id) {
    EXPECT_EQ(found[id].at(0).item<float>(), float(id));
    EXPECT_EQ(found[id].at(1).item<float>(), 5.0f);
  }
  EXPECT_EQ(remote.workers(), 3u);
}

TEST(RemoteStrategyFaults, FailedFactoryIsReportedImmediately) {
  const several_nodes cluster_nodes{
    2, "picky", [](const strategy& on, const std::string&) -> step_functions {
      if (on.worker() == 0)
        throw std::runtime_error("no such file");
      return {};
    }};
  runtime local_runtime;
  const auto why = job_error_of([&] {
    remote_strategy{local_runtime, cluster_nodes.addresses, {.steps = "picky"}};
  });
  EXPECT_EQ(why.what(), "node " + cluster_nodes.addresses[0]
                          + " (worker 0), starting \"picky\": no such file");
  const auto device = job_error_of([&] {
    remote_strategy{local_runtime,
                    cluster_nodes.addresses,
                    {.steps = "picky", .devices = {"gpu:7"}}};
  });
  EXPECT_TRUE(contains(device.what(), "gpu:7")) << device.what();
}

TEST(RemoteStrategyFaults, ANameInRunAndInCallIsRefused) {
  std::atomic<int> calls{0};
  step_functions functions;
  functions.run["f"] = [&](replica_context&, const tensors&) -> tensors {
    ++calls;
    return {};
  };
  functions.call["f"] = [&](const tensors&) -> tensors {
    ++calls;
    return {};
  };
  const several_nodes cluster_nodes{
    2, "twice",
    [functions](const strategy&, const std::string&) { return functions; }};
  runtime local_runtime;
  const auto why = job_error_of([&] {
    remote_strategy{local_runtime, cluster_nodes.addresses, {.steps = "twice"}};
  });
  EXPECT_TRUE(contains(why.what(), "the step functions have the name \"f\" in "
                                   "run and in call"))
    << why.what();
  EXPECT_EQ(calls, 0);
}

TEST(RemoteStrategyFaults, UnreachableNodeIsNamed) {
  const several_nodes one{1, "echo", echo};
  const net::reserved_ports reserved{1};
  const auto silent = "127.0.0.1:" + std::to_string(reserved.numbers().front());
  runtime here;
  const auto why = job_error_of([&] {
    remote_strategy{here, {one.addresses[0], silent}, {.steps = "echo"}};
  });
  EXPECT_EQ(why.code, ec::peer_lost);
  EXPECT_TRUE(contains(why.what(), silent)) << why.what();
}

TEST(RemoteStrategyFaults, ShutdownOfAllNodesBetweenStepsIsReported) {
  several_nodes cluster_nodes{2, "echo", echo};
  runtime here;
  remote_strategy on{here, cluster_nodes.addresses, {.steps = "echo"}};
  on.run("who");
  for (auto& one : cluster_nodes.nodes)
    one.reset();
  const auto why = job_error_of([&] { on.run("who"); });
  EXPECT_EQ(why.code, ec::peer_lost);
  EXPECT_TRUE(
    contains(why.what(), "node " + cluster_nodes.addresses[0]
                           + " (worker 0), function \"who\", step 1: "))
    << why.what();
  const auto later = job_error_of([&] { on.run("who"); });
  EXPECT_EQ(later.code, ec::cancelled);
  EXPECT_TRUE(contains(later.what(), "the nodes were released after node "))
    << later.what();
}

TEST(RemoteStrategyFaults, DifferentStepFunctionsOfTwoNodesAreNamed) {
  const several_nodes cluster_nodes{
    2, "echo", [](const strategy& on, const std::string& argument) {
      auto out = echo(on, argument);
      if (on.worker() == 1)
        out.run.erase("fail");
      return out;
    }};
  runtime here;
  const auto why = job_error_of([&] {
    remote_strategy{here, cluster_nodes.addresses, {.steps = "echo"}};
  });
  EXPECT_EQ(
    why.what(),
    "node " + cluster_nodes.addresses[1]
      + " (worker 1), starting \"echo\": its step functions have "
        "\"functions to run: who\", but worker 0 has \"functions to run: "
        "fail who\"");
}

/// No worker gets a part of the request, so the strategy can be used further.
TEST(RemoteStrategyFaults, TooLargeInputsAreRefusedBeforeAnyWorkerGetsSome) {
  const several_nodes cluster_nodes{2, "echo", echo};
  runtime here;
  remote_strategy remote{here, cluster_nodes.addresses, {.steps = "echo"}};
  const tensors large(17, tensor::full({1 << 24}, 0)); // 17 times 64 MiB
  const auto error_of = [&](const auto& inputs) -> std::string {
    try {
      remote.run("who", inputs);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(error_of(large),
            "the inputs of \"who\" for a node have 1140850688 bytes; a message "
            "has at most 1072693248, so use smaller batches");
  EXPECT_EQ(error_of(per_replica<tensors>{{{}, large}}),
            "the inputs of \"who\" for node " + cluster_nodes.addresses[1]
              + " (worker 1) have 1140850688 bytes; a message has at most "
                "1072693248, so use smaller batches");
  EXPECT_EQ(remote.run("who").size(), 2u);
}

TEST(RemoteStrategyFaults, InvalidOptionsAreRejectedWithASentence) {
  runtime here;
  const auto error_of = [&](const std::vector<std::string>& nodes,
                            remote_strategy_options options) -> std::string {
    try {
      remote_strategy{here, nodes, options};
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string address = "127.0.0.1:1";
  EXPECT_TRUE(contains(error_of({}, {.steps = "a"}), "list of nodes is empty"));
  EXPECT_TRUE(contains(error_of({address}, {}), "steps is empty"));
  EXPECT_TRUE(contains(error_of({address, address}, {.steps = "a"}),
                       address + " is given twice"));
  EXPECT_TRUE(contains(error_of({"nowhere"}, {.steps = "a"}), "nowhere"));
  EXPECT_TRUE(
    contains(error_of({address}, {.steps = "a", .devices = {}}), "devices"));
  EXPECT_TRUE(
    contains(error_of({address}, {.steps = "a", .threads = 0}), "threads"));
  EXPECT_TRUE(
    contains(error_of({address}, {.steps = "a", .request_timeout = 0ms}),
             "request_timeout"));
  using implementations = communication_options::implementations;
  using backends = communication_options::backends;
  EXPECT_TRUE(contains(
    error_of({address},
             {.steps = "a",
              .communication = {.implementation = implementations::nccl}}),
    "communication.implementation cannot be nccl"));
  EXPECT_TRUE(contains(
    error_of({address},
             {.steps = "a", .communication = {.collectives = backends::host}}),
    "communication.collectives cannot be chosen"));
}

} // namespace

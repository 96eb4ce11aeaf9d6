#include "../strategies/losses.hpp"
#include "training_nodes.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/tcp_proxy.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <thread>

// The job of a client goes on when nodes are lost and when nodes are added.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST(RemoteRecovery, UndisturbedProgramEqualsOneProcess) {
  const training_nodes there{3};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  EXPECT_EQ(run_program(remote), undisturbed(3));
}

// -- losses -------------------------------------------------------------------

class RemoteLoss : public ::testing::TestWithParam<std::uint32_t> {};

/// The node is lost for the other nodes, not for the client.
TEST_P(RemoteLoss, OfAConnectionInAStepChangesNoBit) {
  const training_nodes there{3};
  std::atomic<int> cuts = 0;
  there.at->in_step = [&](const strategy& on, std::uint32_t replica, int step) {
    if (replica == GetParam() && step == 3 && cuts++ == 0)
      cut_off(on);
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  EXPECT_EQ(run_program(remote), undisturbed(3));
  EXPECT_GE(cuts, 1);
  EXPECT_EQ(remote.workers(), 2u);
  EXPECT_EQ(remote.num_replicas_in_sync(), 3u);
  EXPECT_EQ(remote.lost_nodes(),
            std::vector<std::string>{there.addresses[GetParam()]});
}

TEST_P(RemoteLoss, OfANodeInAStepChangesNoBit) {
  training_nodes there{3};
  std::atomic<bool> is_ending = false;
  std::promise<void> ended;
  const auto has_ended = ended.get_future().share();
  std::thread ender;
  there.at->in_step = [&](const strategy&, std::uint32_t replica, int step) {
    if (step != 3)
      return;
    if (replica == GetParam()) {
      if (!is_ending.exchange(true))
        ender = std::thread{[&] {
          there.nodes[GetParam()].reset();
          ended.set_value();
        }};
    } else { // so that the node ends while its replica waits for the sum
      EXPECT_EQ(has_ended.wait_for(patience), std::future_status::ready);
    }
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  EXPECT_EQ(run_program(remote), undisturbed(3));
  EXPECT_TRUE(is_ending);
  ender.join();
  EXPECT_EQ(remote.workers(), 2u);
}

TEST_P(RemoteLoss, OfANodeInAFitChangesNoBit) {
  const training_nodes there{3};
  std::atomic<int> cuts = 0;
  there.at->in_fit = [&](const strategy& on, std::uint64_t step) {
    if (on.worker() == GetParam() && on.workers() == 3 && step == 9
        && cuts++ == 0)
      cut_off(on);
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  EXPECT_EQ(run_program(remote), undisturbed(3));
  EXPECT_EQ(cuts, 1);
  EXPECT_EQ(remote.workers(), 2u);
}

TEST_P(RemoteLoss, OfANodeBetweenTwoCallsChangesNoBit) {
  for (const int call : {0, 6, 7, 9}) { // the first, before and after "fit"
    SCOPED_TRACE("before call " + std::to_string(call));
    training_nodes there{3};
    runtime here;
    remote_strategy remote{here, there.addresses, small};
    const auto found = run_program(remote, [&](int next) {
      if (next == call)
        there.nodes[GetParam()].reset();
    });
    EXPECT_EQ(found, undisturbed(3));
    EXPECT_EQ(remote.workers(), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachNode, RemoteLoss, ::testing::Range(0u, 3u));

TEST(RemoteLosses, TwoOfThreeNodesOneAfterTheOtherChangeNoBit) {
  for (const auto& [first, second] : {std::pair{0u, 1u}, {2u, 0u}}) {
    SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(second));
    training_nodes there{3};
    runtime here;
    remote_strategy remote{here, there.addresses, small};
    const auto found =
      run_program(remote, [&, lost = std::array{first, second}](int next) {
        if (next == 2)
          there.nodes[lost[0]].reset();
        if (next == 8)
          there.nodes[lost[1]].reset();
      });
    EXPECT_EQ(found, undisturbed(3));
    EXPECT_EQ(remote.workers(), 1u);
  }
}

/// A worker that is still in a request may wait for one that is not.
TEST(RemoteLosses, AreFollowedByWorkersWithoutARequest) {
  std::mutex lock;
  std::vector<strategy> made;
  several_nodes there{
    3, "idle", [&](const strategy& on, const std::string&) {
      const std::lock_guard hold{lock};
      made.push_back(on);
      return step_functions{.call = {{"none", [](auto& in) { return in; }}}};
    }};
  runtime here;
  remote_strategy remote{here, there.addresses, {.steps = "idle"}};
  ASSERT_EQ(made.size(), 3u);
  std::erase_if(made, [](const strategy& x) { return x.worker() == 2; });
  there.nodes[2].reset();
  for (const auto& one : made) {
    const auto has_entered = [&peers = peers_of(one)] {
      return peers.get([&] {
        return peers.view.view_id == 2 && !peers.stop.requested
               && !peers.stop.stopped;
      });
    };
    EXPECT_TRUE(becomes_true(has_entered));
  }
  made.clear();
  EXPECT_EQ(remote.call("none").size(), 2u);
}

TEST(RemoteLosses, OneOfTwoNodesWithoutEvidenceOfItsDeathEndsWithAnError) {
  const training_nodes there{2};
  there.at->in_step = [&](const strategy& on, std::uint32_t replica, int step) {
    if (replica == 1 && step == 3)
      cut_off(on);
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto error = job_error_of([&] { run_program(remote); });
  EXPECT_TRUE(contains(error.what(), "function \"train\", step 3: "))
    << error.what();
  EXPECT_TRUE(contains(error.what(), "node " + there.addresses[0])
              || contains(error.what(), "node " + there.addresses[1]))
    << error.what();
  EXPECT_EQ(job_error_of([&] { remote.call("weights"); }).code, ec::cancelled);
}

TEST(RemoteLosses, OfAllNodesIsAnErrorThatNamesOne) {
  training_nodes there{2};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto error = job_error_of([&] {
    run_program(remote, [&](int next) {
      if (next == 4)
        for (auto& one : there.nodes)
          one.reset();
    });
  });
  EXPECT_EQ(error.code, ec::peer_lost);
  EXPECT_TRUE(contains(error.what(), "node " + there.addresses[0]
                                       + " (worker 0), function \"train\", "
                                         "step 4: "))
    << error.what();
}

/// A node whose connection to the client passes nothing on from a step on. The
/// connections to the other nodes stay.
class node_behind_proxy {
public:
  explicit node_behind_proxy(several_nodes& there, std::size_t node)
    : proxy_{ports_.numbers()[0], net::parse_address(there.addresses[node])} {
    there.addresses[node] = "127.0.0.1:" + std::to_string(ports_.numbers()[0]);
  }
  void stall() { proxy_.stall(); }

private:
  const net::reserved_ports ports_{1};
  tcp_proxy proxy_;
};

/// All workers have made the step when the client learns of the loss.
TEST(RemoteLosses, AResultWhoseReplyWasLostIsThatOfTheStep) {
  training_nodes there{3};
  node_behind_proxy node{there, 1};
  std::atomic<int> stalls = 0;
  there.at->in_step = [&](const strategy&, std::uint32_t replica, int step) {
    if (replica == 1 && step == 3 && stalls++ == 0)
      node.stall();
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  EXPECT_EQ(run_program(remote), undisturbed(3));
  EXPECT_GE(stalls, 1); // another node has a step 3 of this replica, too
  EXPECT_EQ(remote.workers(), 2u);
}

/// A result of more than 1 MiB is known to its own node only.
TEST(RemoteLosses, ALargeResultThatIsLostIsAnErrorAfterWhichTheJobGoesOn) {
  std::function<void()> stall;
  several_nodes there{
    3, "large", [&](const strategy&, const std::string&) {
      step_functions out;
      out.run["fill"] = [&](replica_context& self,
                            const tensors& in) -> tensors {
        if (self.replica_id() == 1 && in[0].item<float>() == 1)
          stall();
        return {tensor::full({1 << 19}, 2), self.all_reduce(sum, in[0])};
      };
      return out;
    }};
  node_behind_proxy node{there, 1};
  stall = [&] { node.stall(); };
  runtime here;
  remote_strategy remote{here, there.addresses, {.steps = "large"}};
  remote.run("fill", {tensor::full({}, 0)});
  const auto error =
    job_error_of([&] { remote.run("fill", {tensor::full({}, 1)}); });
  EXPECT_EQ(error.code, ec::invalid);
  EXPECT_TRUE(contains(
    error.what(), "function \"fill\", step 1: the step is made, but the "
                  "results of lost nodes are not known: run: the result of "
                  "replica 1 in the 2. call of run is lost with its process: "
                  "only results of at most 1024 KiB"))
    << error.what();
  for (const auto& one : remote.run("fill", {tensor::full({}, 2)})) {
    EXPECT_TRUE(same_bits(one[0], tensor::full({1 << 19}, 2)));
    EXPECT_EQ(one[1].item<float>(), 6);
  }
  EXPECT_EQ(remote.workers(), 2u);
}

// -- exceptions ---------------------------------------------------------------

TEST(RemoteExceptions, OfAStepUndoesItAndTheStrategyCanBeUsed) {
  const training_nodes there{3};
  std::atomic<bool> throws = false;
  there.at->in_step = [&](const strategy&, std::uint32_t replica, int) {
    if (throws && replica == 1)
      throw std::runtime_error("the disk went away");
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto batch = batches_of(3)[0];
  const auto found = run_program(remote, [&](int next) {
    if (next != 3 && next != 7)
      return;
    throws = true;
    const auto error = job_error_of([&] { remote.run("train", batch); });
    EXPECT_EQ(error.code, ec::invalid);
    EXPECT_TRUE(contains(error.what(), "(worker 1), function \"train\", step "))
      << error.what();
    EXPECT_TRUE(contains(error.what(), ": the disk went away")) << error.what();
    throws = false;
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(remote.workers(), 3u);
}

TEST(RemoteExceptions, OfACallOnAllNodesLeaveTheStrategyUsable) {
  const training_nodes there{2};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto found = run_program(remote, [&](int next) {
    if (next == 4) {
      EXPECT_TRUE(
        contains(job_error_of([&] { remote.call("throw"); }).what(),
                 "(worker 0), function \"throw\", step 4: no such file"));
    }
  });
  EXPECT_EQ(found, undisturbed(2));
}

/// Such errors are also those of a worker that is out of its job.
TEST(RemoteExceptions, OfALossOutsideOfTheJobLeaveTheStrategyUsable) {
  const training_nodes there{3};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto found = run_program(remote, [&](int next) {
    for (const auto code : {ec::peer_lost, ec::unreachable, ec::cancelled})
      for (const float node : {1.0f, -1.0f}) { // one, or all
        if (next != 4)
          continue;
        const auto error = job_error_of([&] {
          remote.call("fail", {tensor::full({}, double(code)),
                               tensor::full({}, double(node))});
        });
        EXPECT_TRUE(contains(error.what(), "function \"fail\", step "))
          << error.what();
        EXPECT_TRUE(contains(error.what(), ": a role of its own is gone"))
          << error.what();
      }
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(remote.workers(), 3u);
}

/// The others have taken the replicas of the chief, which has made no call
/// since then.
TEST(RemoteLosses, AWorkerThatIsExcludedMakesNoCall) {
  const training_nodes there{3};
  std::vector<strategy> made;
  std::mutex lock;
  there.at->on_made = [&](const strategy& on) {
    const std::lock_guard hold{lock};
    made.push_back(on);
  };
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  ASSERT_EQ(made.size(), 3u);
  std::ranges::sort(made, {}, &strategy::worker);
  cut_off(made[0]);
  const auto& peers = peers_of(made[1]);
  EXPECT_TRUE(becomes_true([&] {
    const std::lock_guard hold{const_cast<peer_table&>(peers).lock};
    return peers.view.view_id == 2;
  }));
  made.clear();
  EXPECT_EQ(remote.call("weights").size(), 2u);
  EXPECT_EQ(remote.workers(), 2u);
  EXPECT_EQ(remote.lost_nodes(), std::vector<std::string>{there.addresses[0]});
}

/// The other node waits in `fit` for the one that has thrown.
TEST(RemoteExceptions, OfACallOnOneNodeEndTheWaitOfTheOthers) {
  const training_nodes there{2};
  std::promise<std::string> end_of_fit;
  there.at->on_end_of_fit = [&](const std::string& x) {
    end_of_fit.set_value(x);
  };
  runtime here;
  remote_node watcher{here, there.addresses[0]};
  remote_strategy remote{here, there.addresses, small};
  const auto error =
    job_error_of([&] { remote.call("throw", {tensor::full({}, 1)}); });
  EXPECT_TRUE(contains(error.what(), "(worker 1), function \"throw\", step 0: "
                                     "no such file"))
    << error.what();
  EXPECT_EQ(job_error_of([&] { remote.call("weights"); }).code, ec::cancelled);
  auto reason = end_of_fit.get_future();
  ASSERT_EQ(reason.wait_for(patience), std::future_status::ready);
  EXPECT_TRUE(contains(reason.get(), "the client has released this worker"));
  expect_no_roles_on(watcher);
}

// -- nodes that are added -----------------------------------------------------

TEST(RemoteAdd, ANodeGetsTheStateAndChangesNoBit) {
  for (const std::uint32_t lost : {0u, 2u}) {
    SCOPED_TRACE("instead of node " + std::to_string(lost));
    training_nodes there{3};
    const training_nodes further{1, there.at};
    runtime here;
    remote_strategy remote{here, there.addresses, small};
    const auto found = run_program(remote, [&](int next) {
      if (next == 2)
        there.nodes[lost].reset();
      if (next == 4 || next == 8) { // before and after "fit"
        EXPECT_EQ(remote.workers(), next == 4 ? 2u : 3u);
      }
      if (next == 4)
        remote.add(further.addresses[0]);
    });
    EXPECT_EQ(found, undisturbed(3));
    EXPECT_EQ(remote.workers(), 3u);
    EXPECT_TRUE(remote.lost_nodes().empty());
  }
}

/// Finally only the added node is left, so it must have all of the state.
TEST(RemoteAdd, ANodeGoesOnWithoutThoseThatItGotTheStateFrom) {
  training_nodes there{3};
  const training_nodes further{1, there.at};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto found = run_program(remote, [&](int next) {
    if (next == 5)
      there.nodes[1].reset();
    if (next == 8) // after "fit", which the added node has not made
      remote.add(further.addresses[0]);
    if (next == 9)
      there.nodes[0].reset();
    if (next == 11)
      there.nodes[2].reset();
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(remote.workers(), 1u);
}

/// The client has not heard of the loss, and the workers may not have either.
TEST(RemoteAdd, ANodeAtOnceAfterALoss) {
  training_nodes there{2};
  const training_nodes further{1, there.at};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto found = run_program(remote, [&](int next) {
    if (next != 5)
      return;
    there.nodes[0].reset();
    remote.add(further.addresses[0]);
  });
  EXPECT_EQ(found, undisturbed(2));
  EXPECT_EQ(remote.workers(), 2u);
}

/// Each call goes on with the fit that the call before has interrupted. Early
/// stopping returns to the weights of an epoch before the node was added.
TEST(RemoteAdd, ANodeBetweenTwoPartsOfAFit) {
  const steps_factory parts = [](const strategy&, const std::string&) {
    const auto net = std::make_shared<model>(small_net(true), adam{},
                                             model_options{.seed = 5});
    step_functions out;
    out.call["fit"] = [=](const tensors& in) -> tensors {
      fit_options how{.epochs = 3};
      how.max_steps = in[0].item<float>() > 0 ? 15 : 0;
      how.resume = in[1].item<float>() > 0;
      how.validation = digits_200().batch(global_batch);
      how.early_stopping = {.monitor = monitored_metric::validation_loss,
                            .patience = 5,
                            .min_delta = 100, // the first epoch stays the best
                            .restore_best = true};
      const auto found =
        net->fit(digits_200().shuffle().batch(global_batch), how);
      tensors out{bytes_of(net->weights_sha256())};
      for (const auto& one : found.epochs)
        out.push_back(tensor::full({}, one.loss, dtype::float64));
      return out;
    };
    return out;
  };
  const tensors first{tensor::full({}, 1), tensor::full({}, 0)};
  const tensors rest{tensor::full({}, 0), tensor::full({}, 1)};
  tensors expected;
  {
    const auto on = turns(3);
    const auto scope = on.scope();
    auto does = parts(on, "");
    does.call["fit"](first);
    expected = does.call["fit"](rest);
  }
  several_nodes there{3, "parts", parts};
  const several_nodes further{1, "parts", parts};
  runtime here;
  remote_strategy remote{here, there.addresses, {.steps = "parts"}};
  there.nodes[0].reset();
  remote.call("fit", first);
  remote.add(further.addresses[0]);
  const auto found = remote.call("fit", rest);
  ASSERT_EQ(found.size(), 3u);
  for (const auto& one : found) {
    ASSERT_EQ(one.size(), expected.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(same_bits(one[i], expected[i])) << i;
  }
}

/// The node has not made the fit before it was added.
TEST(RemoteAdd, ANodeKnowsWhichCallbacksTheChiefHasProcessed) {
  const steps_factory functions = [](const strategy& on, const std::string&) {
    const auto net = std::make_shared<model>(small_net(true), adam{},
                                             model_options{.seed = 5});
    step_functions out;
    out.call["fit"] = [=](const tensors&) -> tensors {
      net->fit(digits_200().batch(global_batch), {.epochs = 1});
      return {};
    };
    out.call["processed"] = [on](const tensors&) -> tensors {
      const auto& x = on.state()->processed_callbacks;
      return {tensor::full({}, double(x.call), dtype::float64),
              tensor::full({}, double(x.end), dtype::float64)};
    };
    return out;
  };
  several_nodes there{3, "fits", functions};
  const several_nodes further{1, "fits", functions};
  runtime here;
  remote_strategy remote{here, there.addresses, {.steps = "fits"}};
  const auto expect_equal_on_all_nodes = [&](double end) {
    const auto found = remote.call("processed");
    EXPECT_EQ(found.size(), 3u);
    for (const auto& one : found) {
      EXPECT_EQ(one.at(0).item<double>(), found[0].at(0).item<double>());
      EXPECT_EQ(one.at(1).item<double>(), end);
    }
  };
  remote.call("fit");
  there.nodes[1].reset();
  remote.add(further.addresses[0]);
  expect_equal_on_all_nodes(13);
  remote.call("fit");
  expect_equal_on_all_nodes(26);
}

/// A function of `call` may have a loop of its own. No process joins in it.
TEST(RemoteAdd, ANodeBetweenCallsWithLoops) {
  std::atomic<int> cuts = 0;
  const steps_factory loops = [&](const strategy& on, const std::string&) {
    struct components {
      model net{small_net(true), adam{}, {.seed = 5}};
    };
    const auto shared = std::make_shared<components>();
    step_functions out;
    out.call["loop"] = [=, &cuts](const tensors& in) -> tensors {
      const auto batches =
        on.distribute(digits_200().shuffle().batch(global_batch));
      for (auto& step : on.loop("batches", batches)) {
        if (!in.empty() && step.number == 5 && on.worker() == 2 && cuts++ == 0)
          cut_off(on);
        on.run(
          [shared](replica_context& self, const batch& mine) {
            tape t;
            const auto loss =
              models::cross_entropy(
                shared->net(mine.inputs, {.training = true}), mine.labels)
              / mine.global_rows;
            shared->net.optimizer().apply(
              self.all_reduce(sum, t.gradient(loss, shared->net.variables())),
              shared->net.variables());
          },
          step.values);
      }
      return {bytes_of(shared->net.weights_sha256())};
    };
    // The end of a loop does not let processes join in the rest of a request.
    out.call["defers"] = [on](const tensors&) -> tensors {
      auto& peers = peers_of(on);
      return {tensor::full(
        {}, peers.get([&] { return peers.deferral.active; }) ? 1 : 0)};
    };
    return out;
  };
  std::string expected;
  {
    const auto on = turns(3);
    const auto scope = on.scope();
    auto does = loops(on, "");
    does.call["loop"]({});
    expected = text_of(does.call["loop"]({})[0]);
  }
  const several_nodes there{3, "loops", loops};
  const several_nodes further{1, "loops", loops};
  runtime here;
  remote_strategy remote{here, there.addresses, {.steps = "loops"}};
  EXPECT_EQ(remote.call("loop", {tensor::full({}, 1)}).size(), 2u);
  EXPECT_EQ(cuts, 1);
  remote.add(further.addresses[0]);
  const auto found = remote.call("loop");
  ASSERT_EQ(found.size(), 3u);
  for (const auto& one : found)
    EXPECT_EQ(text_of(one[0]), expected);
  for (const auto& one : remote.call("defers"))
    EXPECT_EQ(one.at(0).item<float>(), 1);
}

TEST(RemoteAdd, ANodeHasItsShareOfTheReplicas) {
  const steps_factory where = [](const strategy& on, const std::string&) {
    step_functions out;
    out.run["worker"] = [on](replica_context&, const tensors&) {
      return tensors{tensor::full({}, double(on.worker()))};
    };
    return out;
  };
  several_nodes there{3, "where", where};
  const several_nodes further{1, "where", where};
  runtime here;
  remote_strategy remote{
    here, there.addresses, {.steps = "where", .devices = cpus(2)}};
  there.nodes[1].reset();
  const auto before = remote.run("worker");
  EXPECT_EQ(remote.workers(), 2u);
  remote.add(further.addresses[0]);
  std::array<int, 3> replicas{};
  for (const auto& one : remote.run("worker"))
    ++replicas.at(std::size_t(one[0].item<float>()));
  EXPECT_EQ(replicas, (std::array{2, 2, 2}));
}

TEST(RemoteAdd, IsRefusedWithASentenceAndTheJobGoesOn) {
  training_nodes there{3};
  const training_nodes further{1, there.at};
  const several_nodes unregistered{1, "other", echo};
  const several_nodes smaller{
    1, "small", [&](const strategy& on, const std::string& argument) {
      auto out = training_with(there.at)(on, argument);
      out.run.erase("train");
      return out;
    }};
  const several_nodes failing{
    1, "small", [](const strategy&, const std::string&) -> step_functions {
      throw std::runtime_error("no such file");
    }};
  const several_nodes secured{
    1,
    "small",
    training_with(there.at),
    {.connection = {.credentials = net::credentials{.secret = "open sesame"}}}};
  runtime here;
  remote_strategy remote{here, there.addresses, small};
  const auto refusal = [&](const std::string& address) {
    try {
      remote.add(address);
    } catch (const std::exception& e) {
      EXPECT_TRUE(contains(e.what(), address)) << e.what();
      return std::string{e.what()};
    }
    return std::string{"added"};
  };
  const auto found = run_program(remote, [&](int next) {
    if (next == 2) {
      EXPECT_TRUE(contains(refusal(further.addresses[0]),
                           "a job has no more processes than at its start"));
      EXPECT_TRUE(contains(refusal(there.addresses[1]), "belongs to the job"));
    }
    if (next == 3)
      there.nodes[1].reset();
    if (next == 5) {
      EXPECT_TRUE(contains(refusal(unregistered.addresses[0]),
                           "\"steps/small\"; it has: steps/other"));
      EXPECT_TRUE(contains(refusal(smaller.addresses[0]),
                           "its step functions have \"functions to run:\", but "
                           "worker 0 has \"functions to run: train\""));
      EXPECT_TRUE(contains(refusal(failing.addresses[0]), "no such file"));
      EXPECT_NE(refusal(secured.addresses[0]), "added");
      EXPECT_EQ(remote.workers(), 2u);
    }
    if (next == 9)
      remote.add(further.addresses[0]);
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(remote.workers(), 3u);
}

} // namespace

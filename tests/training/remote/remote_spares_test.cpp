#include "training_nodes.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tests/support/becomes_true.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>

// Nodes that announce themselves to a client, and take the places of lost ones
// without an action of its program.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

const remote_strategy_options listening{.steps = "small",
                                        .listen = "127.0.0.1:0"};

/// A node that announces itself to a client.
struct spare_node {
  spare_node(const std::string& client, steps_factory make,
             node_server_options options = {},
             const std::string& steps = "small") {
    options.join = client;
    options.on_join_event = [this](const std::string& x) {
      const std::lock_guard hold{lock};
      events += x + "\n";
      changed.notify_all();
    };
    node = std::make_unique<node_of_steps>(steps, std::move(make), options);
  }

  const std::string& address() const { return node->server->address(); }

  /// Waits until an event contains the text.
  void expect_event(const std::string& text) {
    std::unique_lock hold{lock};
    EXPECT_TRUE(
      changed.wait_for(hold, patience, [&] { return contains(events, text); }))
      << events;
  }

  /// Waits until the client refuses the node.
  /// @returns the sentence.
  std::string refusal() {
    try {
      node->server->wait_for_stop(patience);
    } catch (const job_error& e) {
      EXPECT_EQ(e.code, ec::refused);
      return e.what();
    }
    return "not refused";
  }

  std::mutex lock; // guards `events`
  std::condition_variable changed;
  std::string events;
  std::unique_ptr<node_of_steps> node;
};

/// Nodes of a client that listens, and the spares that announce themselves.
struct job_with_spares {
  explicit job_with_spares(std::uint32_t count,
                           const remote_strategy_options& options = listening)
    : there{count}, remote{here, there.addresses, options} {}

  /// Starts a spare, and waits until the client knows it.
  spare_node& start_spare() { return start_spare(training_with(there.at)); }
  spare_node& start_spare(steps_factory make) {
    spares.push_back(
      std::make_unique<spare_node>(remote.listen_address(), std::move(make)));
    EXPECT_TRUE(becomes_true([&] { return waits(*spares.back()); }));
    return *spares.back();
  }

  bool waits(const spare_node& spare) const {
    return std::ranges::count(remote.spares(), spare.address()) > 0;
  }

  training_nodes there;
  runtime here;
  remote_strategy remote;
  std::vector<std::unique_ptr<spare_node>> spares;
};

// -- places of lost nodes -----------------------------------------------------

TEST(RemoteSpares, OneThatWaitsTakesThePlaceOfALostNodeAndChangesNoBit) {
  for (const std::uint32_t lost : {0u, 2u}) {
    SCOPED_TRACE("instead of node " + std::to_string(lost));
    job_with_spares job{3};
    auto& remote = job.remote;
    auto& spare = job.start_spare();
    EXPECT_EQ(remote.spares(), std::vector<std::string>{spare.address()});
    const auto found = run_program(remote, [&](int next) {
      if (next == 2)
        job.there.nodes[lost].reset();
      if (next == 3) { // call 2 has noticed the loss
        EXPECT_EQ(remote.workers(), 2u);
        EXPECT_EQ(remote.lost_nodes(),
                  std::vector<std::string>{job.there.addresses[lost]});
      }
      if (next == 4) {
        EXPECT_EQ(remote.workers(), 3u);
        EXPECT_TRUE(remote.spares().empty());
      }
    });
    EXPECT_EQ(found, undisturbed(3));
    EXPECT_EQ(remote.workers(), 3u);
    EXPECT_TRUE(remote.lost_nodes().empty());
    spare.expect_event("uses this node: it belongs to the job \"small\"");
  }
}

TEST(RemoteSpares, OneThatWaitsTakesThePlaceOfANodeThatIsLostInAStep) {
  job_with_spares job{3};
  std::atomic<int> cuts = 0;
  job.there.at->in_step = [&](const strategy& on, std::uint32_t replica,
                              int step) {
    if (replica == 1 && step == 3 && cuts++ == 0)
      cut_off(on);
  };
  job.start_spare();
  EXPECT_EQ(run_program(job.remote), undisturbed(3));
  EXPECT_GE(cuts, 1);
  EXPECT_EQ(job.remote.workers(), 3u);
  EXPECT_TRUE(job.remote.spares().empty());
}

TEST(RemoteSpares, OneThatComesAfterTheLossTakesThePlaceInTheNextCall) {
  job_with_spares job{3};
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 2)
      job.there.nodes[1].reset();
    if (next == 5) {
      EXPECT_EQ(job.remote.workers(), 2u);
      job.start_spare();
    }
    if (next == 6) {
      EXPECT_EQ(job.remote.workers(), 3u);
    }
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(job.remote.workers(), 3u);
}

/// Finally only the spares are left, so they must have all of the state.
TEST(RemoteSpares, TwoTakeThePlacesOfTwoNodesInTheOrderOfTheirArrival) {
  job_with_spares job{2};
  auto& remote = job.remote;
  const auto first = job.start_spare().address();
  const auto second = job.start_spare().address();
  EXPECT_EQ(remote.spares(), (std::vector<std::string>{first, second}));
  const auto found = run_program(remote, [&](int next) {
    if (next == 2)
      job.there.nodes[0].reset();
    if (next == 4) {
      EXPECT_EQ(remote.workers(), 2u);
      EXPECT_EQ(remote.spares(), std::vector<std::string>{second});
    }
    if (next == 8)
      job.there.nodes[1].reset();
    if (next == 9) {
      EXPECT_EQ(remote.workers(), 1u);
    }
  });
  EXPECT_EQ(found, undisturbed(2));
  EXPECT_EQ(remote.workers(), 2u);
  EXPECT_TRUE(remote.spares().empty());
  for (auto& one : job.spares)
    one->expect_event("uses this node");
}

/// The lost node itself comes back, with the same address.
TEST(RemoteSpares, ANewProcessAtTheAddressOfALostNode) {
  job_with_spares job{3};
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 2)
      job.there.nodes[1].reset();
    if (next == 4) {
      job.spares.push_back(std::make_unique<spare_node>(
        job.remote.listen_address(), training_with(job.there.at),
        node_server_options{.listen = job.there.addresses[1]}));
      EXPECT_TRUE(
        becomes_true([&] { return job.remote.spares().size() == 1; }));
    }
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(job.remote.workers(), 3u);
}

// -- spares that cannot be used -----------------------------------------------

TEST(RemoteSpares, OneThatDiesWhileItWaitsIsDropped) {
  job_with_spares job{3};
  job.start_spare();
  const auto second = job.start_spare().address();
  job.spares[0].reset();
  EXPECT_TRUE(becomes_true(
    [&] { return job.remote.spares() == std::vector<std::string>{second}; }));
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 2)
      job.there.nodes[0].reset();
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(job.remote.workers(), 3u);
  job.spares[1]->expect_event("uses this node");
}

/// The client may not know of the death when it needs a spare.
TEST(RemoteSpares, OneThatDiesWhenItIsNeededIsFollowedByTheNext) {
  job_with_spares job{3};
  job.start_spare();
  job.start_spare();
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 2)
      job.there.nodes[0].reset();
    if (next == 3) {
      EXPECT_EQ(job.remote.workers(), 2u);
      job.spares[0].reset();
    }
    if (next == 4) {
      EXPECT_EQ(job.remote.workers(), 3u);
    }
  });
  EXPECT_EQ(found, undisturbed(3));
  job.spares[1]->expect_event("uses this node");
}

TEST(RemoteSpares, OneThatDoesNotFitIsRefusedOnBothSidesAndTheJobGoesOn) {
  job_with_spares job{3};
  const auto client = job.remote.listen_address();
  spare_node unregistered{client, echo, {}, "other"};
  const auto said = unregistered.refusal();
  EXPECT_TRUE(
    contains(said, "the node has no role \"steps/small\"; it has: steps/other"))
    << said;
  spare_node secured{
    client,
    training_with(job.there.at),
    {.connection = {.credentials = net::credentials{.secret = "open sesame"}}}};
  EXPECT_NE(secured.refusal(), "not refused");
  EXPECT_TRUE(job.remote.spares().empty());
  spare_node smaller{client,
                     [&](const strategy& on, const std::string& argument) {
                       auto out = training_with(job.there.at)(on, argument);
                       out.run.erase("train");
                       return out;
                     }};
  EXPECT_TRUE(becomes_true([&] { return job.remote.spares().size() == 1; }));
  spare_node failing{client,
                     [](const strategy&, const std::string&) -> step_functions {
                       throw std::runtime_error("no such file");
                     }};
  EXPECT_TRUE(becomes_true([&] { return job.remote.spares().size() == 2; }));
  job.start_spare();
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 3)
      job.there.nodes[1].reset();
    if (next == 5) {
      EXPECT_EQ(job.remote.workers(), 3u);
    }
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(job.remote.workers(), 3u);
  EXPECT_TRUE(contains(smaller.refusal(),
                       "its step functions have \"functions to run:\""));
  EXPECT_TRUE(contains(failing.refusal(), "no such file"));
  job.spares[0]->expect_event("uses this node");
}

/// A job with one node ends with it, so a spare would wait in vain.
TEST(RemoteSpares, OfAJobWithOneNodeAreRefused) {
  job_with_spares job{1};
  spare_node spare{job.remote.listen_address(), training_with(job.there.at)};
  EXPECT_TRUE(contains(spare.refusal(), "the job has one node"));
  EXPECT_EQ(run_program(job.remote), undisturbed(1));
}

TEST(RemoteSpares, NeedAClientThatListens) {
  job_with_spares job{2, small};
  EXPECT_EQ(job.remote.listen_address(), "");
  EXPECT_TRUE(job.remote.spares().empty());
  // Nothing of the job accepts spares, also not its nodes.
  spare_node spare{job.there.addresses[0], training_with(job.there.at)};
  EXPECT_TRUE(contains(spare.refusal(), "no service 'spare' of job ''"));
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 2)
      job.there.nodes[0].reset();
  });
  EXPECT_EQ(found, undisturbed(2));
  EXPECT_EQ(job.remote.workers(), 1u);
}

TEST(RemoteSpares, NeedAValidAddressOfTheClient) {
  const training_nodes there{2};
  runtime here;
  for (const std::string bad : {"here", "0.0.0.0:0"}) {
    const remote_strategy_options options{.steps = "small", .listen = bad};
    EXPECT_THROW((remote_strategy{here, there.addresses, options}),
                 std::invalid_argument)
      << bad;
  }
}

// -- spares that cannot be used yet -------------------------------------------

/// Fails for a reason that passes: the first attempt of a factory.
steps_factory failing_once(const steps_factory& make,
                           std::atomic<int>& attempts) {
  return [=, &attempts](const strategy& on, const std::string& argument) {
    if (attempts++ == 0)
      throw job_error{ec::busy, "the file server is busy"};
    return make(on, argument);
  };
}

TEST(RemoteSpares, OneThatCannotBeAddedYetComesBackAndIsUsedInTheNextCall) {
  std::atomic<int> attempts = 0;
  job_with_spares job{3};
  auto& spare =
    job.start_spare(failing_once(training_with(job.there.at), attempts));
  const auto found = run_program(job.remote, [&](int next) {
    if (next == 2)
      job.there.nodes[1].reset();
    if (next == 4) { // call 3 has tried the spare
      EXPECT_EQ(attempts, 1);
      EXPECT_EQ(job.remote.workers(), 2u);
      spare.expect_event("the file server is busy");
      spare.expect_event("this node announces itself again");
      EXPECT_TRUE(becomes_true([&] { return job.waits(spare); }));
    }
    if (next == 5) {
      EXPECT_EQ(job.remote.workers(), 3u);
    }
  });
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_EQ(attempts, 2);
  spare.expect_event("uses this node");
  EXPECT_FALSE(spare.node->server->wait_for_stop(0ms)); // it was not refused
}

/// No process listens at the address that the node advertises.
TEST(RemoteSpares, OneToWhichTheClientCannotConnectIsNotRefused) {
  const net::reserved_ports ports{1};
  job_with_spares job{3};
  spare_node spare{
    job.remote.listen_address(),
    training_with(job.there.at),
    {.advertise = "127.0.0.1:" + std::to_string(ports.numbers()[0])}};
  EXPECT_TRUE(becomes_true([&] { return job.waits(spare); }));
  job.there.nodes[1].reset();
  job.remote.call("weights"); // notices the loss
  job.remote.call("weights");
  EXPECT_EQ(job.remote.workers(), 2u);
  spare.expect_event("this node announces itself again");
  EXPECT_FALSE(spare.node->server->wait_for_stop(0ms));
}

/// Each of two spares fails, and the other one has come back by then.
TEST(RemoteSpares, EachIsTriedAtMostOnceInACall) {
  std::vector<spare_node*> all;
  std::atomic<int> attempts = 0;
  job_with_spares job{3};
  const auto failing = [&](std::size_t other) {
    return [&, other](const strategy&, const std::string&) -> step_functions {
      if (attempts++ > 0) {
        EXPECT_TRUE(becomes_true([&] { return job.waits(*all[other]); }));
      }
      throw job_error{ec::busy, "the file server is busy"};
    };
  };
  all = {&job.start_spare(failing(1)), &job.start_spare(failing(0))};
  job.there.nodes[1].reset();
  job.remote.call("weights"); // notices the loss
  EXPECT_EQ(attempts, 0);
  job.remote.call("weights");
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(job.remote.workers(), 2u);
  for (auto* one : all)
    EXPECT_FALSE(one->node->server->wait_for_stop(0ms));
}

// -- nodes of the job that announce themselves --------------------------------

/// A job all of whose nodes were started with the address of the client.
struct job_of_spares {
  /// @param change changes the step functions of the nodes. Null: nothing.
  explicit job_of_spares(
    std::uint32_t count,
    const std::function<void(step_functions&)>& change = {}) {
    options.listen = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
    for (std::uint32_t i = 0; i < count; ++i) {
      nodes.push_back(
        std::make_unique<spare_node>(options.listen, with(change)));
      addresses.push_back(nodes.back()->address());
    }
    remote = std::make_unique<remote_strategy>(here, addresses, options);
    for (auto& one : nodes)
      one->expect_event("waits as a spare");
  }

  steps_factory with(const std::function<void(step_functions&)>& change) {
    return [=, make = training_with(at)](const strategy& on,
                                         const std::string& argument) {
      auto out = make(on, argument);
      if (change)
        change(out);
      return out;
    };
  }

  /// No node was refused, so none has ended.
  void expect_not_refused() {
    for (auto& one : nodes)
      if (one->node) {
        EXPECT_NO_THROW(one->node->server->wait_for_stop(0ms));
      }
  }

  const net::reserved_ports ports{1};
  remote_strategy_options options = listening;
  const std::shared_ptr<hooks> at = std::make_shared<hooks>();
  std::vector<std::unique_ptr<spare_node>> nodes;
  std::vector<std::string> addresses;
  runtime here;
  std::unique_ptr<remote_strategy> remote;
};

TEST(RemoteSpares, NodesOfTheJobAreNoSparesAndOutliveTheLossOfAnother) {
  job_of_spares job{3};
  EXPECT_TRUE(job.remote->spares().empty());
  const auto found = run_program(*job.remote, [&](int next) {
    if (next == 2)
      job.nodes[0]->node.reset();
    if (next == 4) { // call 3 has found no spare
      EXPECT_EQ(job.remote->workers(), 2u);
      job.expect_not_refused();
    }
    if (next == 5) {
      job.nodes.push_back(std::make_unique<spare_node>(job.options.listen,
                                                       training_with(job.at)));
      const std::vector<std::string> spare{job.nodes.back()->address()};
      EXPECT_TRUE(becomes_true([&] { return job.remote->spares() == spare; }));
    }
    if (next == 6) {
      EXPECT_EQ(job.remote->workers(), 3u);
    }
  });
  EXPECT_EQ(found, undisturbed(3));
  job.expect_not_refused();
  job.nodes[3]->expect_event("uses this node");
  job.remote.reset();
  job.nodes[1]->expect_event("has released this node");
  job.nodes[2]->expect_event("has released this node");
  job.expect_not_refused();
}

/// The process of the lost node lives, and has announced itself before. Its
/// former worker ends late, because the objects of the functions do.
TEST(RemoteSpares, ANodeOfTheJobThatIsLostIsASpareWhenItsWorkerHasEnded) {
  std::atomic<bool> may_end = false;
  job_of_spares job{
    3, [&](step_functions& out) {
      const std::shared_ptr<void> late{
        nullptr, [&](void*) { becomes_true([&] { return may_end.load(); }); }};
      out.call["nothing"] = [late](const tensors& x) { return x; };
    }};
  std::atomic<int> cuts = 0;
  job.at->in_step = [&](const strategy& on, std::uint32_t replica, int step) {
    if (replica == 1 && step == 3 && cuts++ == 0)
      cut_off(on);
  };
  auto& lost = *job.nodes[1];
  const auto found = run_program(*job.remote, [&](int next) {
    if (next == 4) {
      EXPECT_EQ(job.remote->lost_nodes(),
                std::vector<std::string>{lost.address()});
      EXPECT_EQ(job.remote->spares(), job.remote->lost_nodes());
    }
    if (next == 5) { // call 4 has tried it
      EXPECT_EQ(job.remote->workers(), 2u);
      lost.expect_event("the former worker of this node has not ended");
      may_end = true;
      remote_node watcher{job.here, lost.address()};
      expect_no_roles_on(watcher);
      EXPECT_TRUE(becomes_true([&] { return !job.remote->spares().empty(); }));
    }
  });
  may_end = true;
  EXPECT_EQ(found, undisturbed(3));
  EXPECT_GE(cuts, 1);
  EXPECT_EQ(job.remote->workers(), 3u);
  EXPECT_TRUE(job.remote->lost_nodes().empty());
  lost.expect_event("uses this node");
  job.expect_not_refused();
}

/// The client names the nodes by other addresses than they themselves.
TEST(RemoteSpares, NodesOfTheJobAreKnownByTheirProcesses) {
  job_of_spares job{2};
  job.remote.reset();
  for (auto& one : job.nodes)
    one =
      std::make_unique<spare_node>(job.options.listen, training_with(job.at));
  std::vector<std::string> renamed;
  for (auto& one : job.nodes)
    renamed.push_back("localhost"
                      + one->address().substr(std::strlen("127.0.0.1")));
  remote_strategy remote{job.here, renamed, job.options};
  for (auto& one : job.nodes)
    one->expect_event("waits as a spare");
  EXPECT_TRUE(remote.spares().empty());
  job.nodes[0]->node.reset();
  remote.call("weights"); // notices the loss
  remote.call("weights");
  EXPECT_EQ(remote.workers(), 1u);
  job.expect_not_refused();
}

TEST(RemoteSpares, TheOnlyNodeOfAJobIsNotRefused) {
  job_of_spares job{1};
  EXPECT_TRUE(job.remote->spares().empty());
  EXPECT_EQ(run_program(*job.remote), undisturbed(1));
  job.expect_not_refused();
}

// -- the end of the client ----------------------------------------------------

TEST(RemoteSpares, AreReleasedWithASentenceAndGoOnAsNodes) {
  auto job = std::make_unique<training_nodes>(2);
  runtime here;
  auto remote =
    std::make_unique<remote_strategy>(here, job->addresses, listening);
  spare_node spare{remote->listen_address(), training_with(job->at)};
  EXPECT_TRUE(becomes_true([&] { return remote->spares().size() == 1; }));
  remote.reset();
  spare.expect_event("has released this node: the job of the client has ended");
  EXPECT_FALSE(spare.node->server->wait_for_stop(0ms));
  remote_strategy other{here, {spare.address(), job->addresses[1]}, small};
  EXPECT_EQ(run_program(other), undisturbed(2));
}

/// The program constructs another strategy when the first one has failed.
TEST(RemoteSpares, AnnounceThemselvesAgainAfterAFailureOfTheJob) {
  const net::reserved_ports ports{1};
  auto options = listening;
  options.listen = "127.0.0.1:" + std::to_string(ports.numbers()[0]);
  training_nodes there{3};
  runtime here;
  spare_node spare{options.listen, training_with(there.at)};
  {
    remote_strategy remote{here, there.addresses, options};
    EXPECT_TRUE(becomes_true([&] { return remote.spares().size() == 1; }));
    for (auto& one : there.nodes)
      one.reset();
    job_error_of([&] { remote.call("weights"); });
    EXPECT_TRUE(remote.spares().empty());
    spare.expect_event("this node announces itself again");
  }
  training_nodes others{2, there.at};
  remote_strategy remote{here, others.addresses, options};
  EXPECT_TRUE(becomes_true([&] { return remote.spares().size() == 1; }));
  const auto found = run_program(remote, [&](int next) {
    if (next == 2)
      others.nodes[1].reset();
  });
  EXPECT_EQ(found, undisturbed(2));
  EXPECT_EQ(remote.workers(), 2u);
  spare.expect_event("uses this node");
}

// -- random faults ------------------------------------------------------------

TEST(RemoteSpares, RandomLossesOfNodesAndSparesChangeNoBit) {
  int losses = 0, lost_spares = 0;
  for (int round = 0; round < 4; ++round) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::cout << "seed " << seed << '\n';
    std::mt19937_64 random{seed};
    job_with_spares job{3};
    auto& remote = job.remote;
    int last_loss = -2;
    const auto found = run_program(remote, [&](int next) {
      if (random() % 3 == 0)
        job.start_spare();
      if (random() % 2 == 0 || next - last_loss < 2)
        return; // the client notices a loss before the next one
      std::vector<std::unique_ptr<node_of_steps>*> living;
      for (auto& one : job.there.nodes)
        if (one)
          living.push_back(&one);
      for (auto& one : job.spares)
        if (one->node)
          living.push_back(&one->node);
      auto& victim = *living[random() % living.size()];
      const auto waiting = remote.spares();
      const bool waits =
        std::ranges::count(waiting, victim->server->address()) > 0;
      if (!waits && remote.workers() < 2)
        return;
      ++(waits ? lost_spares : losses);
      last_loss = next;
      victim.reset();
    });
    EXPECT_EQ(found, undisturbed(3));
  }
  EXPECT_GE(losses, 1);
  std::cout << losses << " nodes and " << lost_spares << " spares were lost\n";
}

} // namespace

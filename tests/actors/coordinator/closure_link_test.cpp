#include "troupe/actors/coordinator/closure_link.hpp"
#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/simulation/simulator.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_response_promise.hpp>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// What the worker on the node has received and not answered.
struct node_log {
  struct request {
    remote_runs what;
    tensors inputs;
    caf::typed_response_promise<remote_ends, tensors> answer;
  };
  std::deque<request> requests;
  std::deque<
    std::pair<coordinator::execution, caf::typed_response_promise<tensors>>>
    fetches;
  std::vector<coordinator::execution> cancelled;
  /// Answers. The worker calls it when `info` arrives, because only the actor
  /// that has made a promise may keep it.
  std::function<void()> answer;
};

remote_closure_worker_actor::behavior_type
node_worker(remote_closure_worker_actor::pointer self, node_log* log) {
  return {
    [self, log](const remote_runs& what, const tensors& inputs) {
      auto answer = self->make_response_promise<remote_ends, tensors>();
      log->requests.push_back({what, inputs, answer});
      return answer;
    },
    [self, log](const coordinator::execution& from) {
      auto answer = self->make_response_promise<tensors>();
      log->fetches.emplace_back(from, answer);
      return answer;
    },
    [log](const coordinator::cancel& x) {
      log->cancelled.push_back(x.execution);
    },
    [log](atom::info) {
      log->answer();
      return std::vector<std::string>{};
    },
  };
}

/// What the scheduler hears, by ordinal.
struct owner_log {
  std::map<std::uint64_t, tensors> results;
  std::map<std::uint64_t, std::string> errors;
  std::set<std::uint64_t> stopped;
};

closure_worker_owner_actor::behavior_type
owner(closure_worker_owner_actor::pointer, owner_log* log) {
  return {
    [log](std::uint64_t, const coordinator::ended& x,
          const coordinator::payload& results) {
      const auto is_first =
        log->results
          .emplace(x.execution.ordinal,
                   *static_cast<const tensors*>(results.get()))
          .second;
      EXPECT_TRUE(is_first);
    },
    [log](std::uint64_t, const coordinator::failed& x,
          const closure_failure& failure) {
      try {
        std::rethrow_exception(failure.thrown);
      } catch (const job_error& e) {
        log->errors[x.execution.ordinal] = e.what();
      }
    },
    [log](std::uint64_t, const coordinator::stopped& x) {
      log->stopped.insert(x.execution.ordinal);
    },
  };
}

coordinator::execution execution(std::uint64_t ordinal) {
  return {.ordinal = ordinal};
}

remote_ends ended(std::vector<remote_end> all) {
  remote_ends out;
  out.ended = std::move(all);
  return out;
}

/// A link between an owner and a worker of a node.
struct link_fixture {
  link_fixture() { watcher->monitor(link); }
  ~link_fixture() {
    node.requests.clear();
    node.fetches.clear();
  }

  void schedule(std::uint64_t ordinal, tensors inputs = {}) {
    caf::anon_send(
      link, coordinator::run{execution(ordinal)},
      std::make_shared<closure>("square", std::move(inputs), nullptr));
  }
  void settle() { simulator.run_until_idle(); }

  /// Answers the first request.
  void answer(const remote_ends& ends, const tensors& results = {}) {
    ASSERT_FALSE(node.requests.empty());
    auto first = std::move(node.requests.front());
    node.requests.pop_front();
    on_node([&] { first.answer.deliver(ends, results); });
  }
  void answer(const caf::error& why) {
    ASSERT_FALSE(node.requests.empty());
    auto first = std::move(node.requests.front());
    node.requests.pop_front();
    on_node([&] { first.answer.deliver(why); });
  }
  void on_node(std::function<void()> fn) {
    node.answer = std::move(fn);
    caf::anon_send(worker, atom::info_v);
    settle();
  }

  bool has_ended() { return watcher->has_next_message(); }

  node_log node;
  owner_log heard;
  simulation::simulator simulator;
  remote_closure_worker_actor worker = simulator.spawn(node_worker, &node);
  closure_worker_owner_actor scheduler = simulator.spawn(owner, &heard);
  closure_worker_actor link =
    simulator.spawn(closure_link, closure_link_config{.id = 5,
                                                      .number = 3,
                                                      .address = "host:1",
                                                      .owner = scheduler,
                                                      .worker = worker,
                                                      .timeout = 600s});
  caf::scoped_actor watcher{simulator.sys, true};
};

TEST(ClosureLink, SendsWhatWaitsInOneRequest) {
  link_fixture f;
  for (std::uint64_t i = 0; i < 100; ++i)
    f.schedule(i, tensors{std::size_t(i % 3), tensor::full({}, double(i))});
  f.settle();
  std::set<std::uint64_t> sent;
  for (const auto& one : f.node.requests) {
    std::size_t next = 0;
    for (const auto& run : one.what.runs) {
      const auto i = run.run.execution.ordinal;
      EXPECT_TRUE(sent.insert(i).second);
      EXPECT_EQ(run.closure, "square");
      ASSERT_EQ(run.inputs, i % 3);
      for (std::uint32_t k = 0; k < run.inputs; ++k)
        EXPECT_EQ(one.inputs.at(next++).item<float>(), float(i));
    }
    EXPECT_EQ(next, one.inputs.size());
  }
  // How many arrive before the first is sent depends on the seed.
  EXPECT_LE(f.node.requests.size(), 8u);
  while (sent.size() < 100) { // what has waited for an answer
    f.answer(remote_ends{});
    for (const auto& run : f.node.requests.back().what.runs)
      sent.insert(run.run.execution.ordinal);
  }
  EXPECT_EQ(sent.size(), 100u);
}

TEST(ClosureLink, KeepsARequestOpenWhileExecutionsHaveNotEnded) {
  link_fixture f;
  f.schedule(0);
  f.schedule(1);
  f.settle();
  f.answer(ended({{{execution(1), {0, 2}}, 1}}), {tensor::full({}, 7)});
  ASSERT_EQ(f.heard.results.size(), 1u);
  EXPECT_EQ(f.heard.results.at(1).at(0).item<float>(), 7);
  ASSERT_GE(f.node.requests.size(), 1u);
  f.answer(ended({{{execution(0), {}}, 2}}),
           {tensor::full({}, 8), tensor::full({}, 9)});
  while (!f.node.requests.empty())
    f.answer(remote_ends{});
  EXPECT_EQ(f.heard.results.at(0).at(1).item<float>(), 9);
  EXPECT_TRUE(f.node.requests.empty()); // nothing is executed
}

TEST(ClosureLink, SendsLargeInputsAlone) {
  link_fixture f;
  const auto large = tensor::zeros({std::int64_t(max_batch_bytes) / 4});
  f.schedule(0);
  f.schedule(1, {large});
  f.schedule(2);
  f.settle();
  for (const auto& one : f.node.requests)
    for (const auto& run : one.what.runs)
      if (run.run.execution.ordinal == 1) {
        EXPECT_EQ(one.what.runs.size(), 1u);
      }
  // The channel rejects them: only their execution fails.
  while (f.node.requests.front().what.runs.front().run.execution.ordinal != 1)
    f.answer(remote_ends{});
  f.answer(caf::make_error(ec::invalid, std::string{"too large"}));
  ASSERT_EQ(f.heard.errors.size(), 1u);
  EXPECT_EQ(f.heard.errors.at(1), "worker 3 (host:1): too large");
}

TEST(ClosureLink, TellsWhatHasFailedAndWhatWasStopped) {
  link_fixture f;
  f.schedule(0);
  f.schedule(1);
  f.settle();
  caf::anon_send(f.link, coordinator::cancel{execution(1)});
  f.settle();
  EXPECT_EQ(f.node.cancelled, std::vector{execution(1)});
  f.answer({.ended = {},
            .failed = {{execution(0), "it has\nthrown"}},
            .stopped = {{execution(1)}}});
  EXPECT_EQ(f.heard.errors.at(0), "worker 3 (host:1): it has?thrown");
  EXPECT_EQ(f.heard.stopped, std::set<std::uint64_t>{1});
  // What the node says again, or of another execution, has no effect.
  f.schedule(2);
  f.settle();
  f.answer({.ended = {{{execution(0), {}}, 0}, {{execution(9), {}}, 0}},
            .failed = {{execution(1), ""}},
            .stopped = {{execution(0)}}});
  EXPECT_TRUE(f.heard.results.empty());
  EXPECT_EQ(f.heard.errors.size(), 1u);
  EXPECT_EQ(f.heard.stopped.size(), 1u);
}

/// More executions than requests may be open, so some of them wait.
TEST(ClosureLink, StopsAnExecutionThatWaits) {
  link_fixture f;
  for (std::uint64_t i = 0; i < 30; ++i) {
    f.schedule(i);
    f.settle();
  }
  ASSERT_EQ(f.node.requests.size(), 8u);
  caf::anon_send(f.link, coordinator::cancel{execution(20)});
  f.settle();
  EXPECT_EQ(f.heard.stopped, std::set<std::uint64_t>{20});
  EXPECT_TRUE(f.node.cancelled.empty());
  f.answer(remote_ends{});
  for (const auto& run : f.node.requests.back().what.runs)
    EXPECT_NE(run.run.execution.ordinal, 20u);
  EXPECT_EQ(f.node.requests.back().what.runs.size(), 21u);
}

TEST(ClosureLink, AsksForResultsThatTheNodeHasKept) {
  link_fixture f;
  remote_ends ends;
  for (std::uint64_t i = 0; i < 6; ++i) {
    f.schedule(i);
    ends.ended.push_back({{execution(i), {}}, 0, true});
  }
  f.settle();
  f.answer(ends);
  std::set<std::uint64_t> asked;
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_FALSE(f.node.fetches.empty());
    EXPECT_LE(f.node.fetches.size(), 4u);
    auto [from, answer] = f.node.fetches.front();
    f.node.fetches.pop_front();
    f.on_node([&, from = from, answer = answer]() mutable {
      if (from.ordinal == 2)
        answer.deliver(caf::make_error(ec::invalid, std::string{"too large"}));
      else
        answer.deliver(tensors{tensor::full({}, double(from.ordinal))});
    });
    asked.insert(from.ordinal);
  }
  EXPECT_EQ(asked.size(), 6u);
  EXPECT_EQ(f.heard.results.size(), 5u);
  EXPECT_EQ(f.heard.results.at(5).at(0).item<float>(), 5);
  EXPECT_EQ(f.heard.errors.at(2), "worker 3 (host:1): too large");
}

TEST(ClosureLink, EndsIfTheNodeBreaksTheProtocolOrCannotBeUsed) {
  {
    link_fixture f;
    f.schedule(0);
    f.settle();
    f.answer(ended({{{execution(0), {}}, 2}}), {tensor::full({}, 1)});
    EXPECT_TRUE(f.has_ended());
    EXPECT_TRUE(f.heard.results.empty());
  }
  for (const auto code : {ec::refused, ec::stalled, ec::busy}) {
    link_fixture f;
    f.schedule(0);
    f.settle();
    f.answer(caf::make_error(code, std::string{"no"}));
    EXPECT_TRUE(f.has_ended());
    EXPECT_TRUE(f.heard.errors.empty());
  }
}

} // namespace
} // namespace troupe

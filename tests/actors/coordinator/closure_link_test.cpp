#include "troupe/actors/coordinator/closure_link.hpp"
#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/coordinator/executions.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_response_promise.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
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
using testing::execution;

/// What the worker on the node has received and not answered.
struct node_log {
  struct request {
    remote_work what;
    tensors inputs;
    caf::typed_response_promise<remote_ends, tensors> answer;
  };
  std::deque<request> requests;
  std::deque<
    std::pair<coordinator::execution, caf::typed_response_promise<tensors>>>
    fetches;
  /// Answers. The worker calls it when `info` arrives, because only the actor
  /// that has made a promise may keep it.
  std::function<void()> answer;
};

remote_closure_worker_actor::behavior_type
node_worker(remote_closure_worker_actor::pointer self, node_log* log) {
  return {
    [self, log](const remote_work& what, const tensors& inputs) {
      auto answer = self->make_response_promise<remote_ends, tensors>();
      log->requests.push_back({what, inputs, answer});
      return answer;
    },
    [self, log](atom::results, const coordinator::execution& from) {
      auto answer = self->make_response_promise<tensors>();
      log->fetches.emplace_back(from, answer);
      return answer;
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
  std::vector<std::pair<std::uint64_t, tensors>> reports;
  std::map<std::uint64_t, std::string> errors;
  std::set<std::uint64_t> stopped;
};

closure_worker_owner_actor::behavior_type
recording_owner(closure_worker_owner_actor::pointer, owner_log* log) {
  return {
    [log](std::uint64_t, const coordinator::execution& from,
          const tensors& what) {
      EXPECT_FALSE(log->results.contains(from.ordinal));
      log->reports.emplace_back(from.ordinal, what);
    },
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
  closure_worker_owner_actor scheduler =
    simulator.spawn(recording_owner, &heard);
  closure_worker_actor link = simulator.spawn(
    closure_link, closure_link_config{.id = 5,
                                      .number = 3,
                                      .address = "host:1",
                                      .owner = scheduler,
                                      .worker = worker,
                                      .timeout = std::chrono::minutes{10}});
  caf::scoped_actor watcher{simulator.sys, true};
};

/// Ordinals of the executions of a request.
std::vector<std::uint64_t> ordinals(const node_log::request& of) {
  std::vector<std::uint64_t> out;
  for (const auto& one : of.what.runs)
    out.push_back(one.run.execution.ordinal);
  return out;
}

/// As many requests as may be open, each with one execution, from 0.
struct busy_link : link_fixture {
  static constexpr std::uint64_t open = 4;
  busy_link() {
    for (std::uint64_t i = 0; i < open; ++i) {
      schedule(i);
      settle();
    }
    EXPECT_EQ(node.requests.size(), open);
  }
};

TEST(ClosureLink, SendsWhatWaitsInOneRequest) {
  busy_link f;
  for (std::uint64_t i = 4; i < 100; ++i)
    f.schedule(i, tensors{std::size_t(i % 3), tensor::full({}, double(i))});
  f.settle();
  EXPECT_EQ(f.node.requests.size(), f.open);
  f.answer(remote_ends{});
  ASSERT_EQ(f.node.requests.size(), f.open);
  const auto& all = f.node.requests.back();
  ASSERT_EQ(all.what.runs.size(), 96u);
  std::size_t next = 0;
  for (std::uint64_t i = 4; i < 100; ++i) {
    const auto& run = all.what.runs[i - 4];
    EXPECT_EQ(run.run.execution, execution(i));
    EXPECT_EQ(run.closure_name, "square");
    ASSERT_EQ(run.num_inputs, i % 3);
    for (std::uint32_t k = 0; k < run.num_inputs; ++k)
      EXPECT_EQ(all.inputs.at(next++).item<float>(), float(i));
  }
  EXPECT_EQ(next, all.inputs.size());
}

TEST(ClosureLink, KeepsARequestOpenWhileExecutionsHaveNotEnded) {
  busy_link f;
  f.schedule(4);
  f.schedule(5);
  f.settle();
  f.answer(ended({{{execution(0), {0, 2}}, 1}, {{execution(1), {}}}}),
           {tensor::full({}, 7)});
  ASSERT_EQ(f.heard.results.size(), 2u);
  EXPECT_EQ(f.heard.results.at(0).at(0).item<float>(), 7);
  EXPECT_EQ(ordinals(f.node.requests.back()), (std::vector{4UL, 5UL}));
  for (std::uint64_t i = 2; i < 5; ++i)
    f.answer(ended({{{execution(i), {}}}}));
  ASSERT_EQ(f.node.requests.size(), 1u);
  f.answer(remote_ends{}); // the last request with executions
  ASSERT_EQ(f.node.requests.size(), 1u);
  EXPECT_TRUE(f.node.requests.front().what.runs.empty());
  f.answer(ended({{{execution(5), {}}, 2}}),
           {tensor::full({}, 8), tensor::full({}, 9)});
  EXPECT_EQ(f.heard.results.at(5).at(1).item<float>(), 9);
  EXPECT_TRUE(f.node.requests.empty()); // nothing is executed
}

TEST(ClosureLink, TellsReportsBeforeTheEnd) {
  busy_link f;
  auto with_reports = ended({{{execution(0), {}}, 1}});
  with_reports.reports = {
    {execution(1), 2}, {execution(9), 1}, {execution(0), 0}};
  f.answer(with_reports, {tensor::full({}, 1), tensor::full({}, 2),
                          tensor::full({}, 3), tensor::full({}, 4)});
  ASSERT_EQ(f.heard.reports.size(), 2u); // closure 9 is not executed
  EXPECT_EQ(f.heard.reports[0].first, 1u);
  EXPECT_EQ(f.heard.reports[0].second.at(1).item<float>(), 2);
  EXPECT_EQ(f.heard.reports[1].first, 0u);
  EXPECT_TRUE(f.heard.reports[1].second.empty());
  EXPECT_EQ(f.heard.results.at(0).at(0).item<float>(), 4);
}

TEST(ClosureLink, LimitsTheInputsOfARequest) {
  busy_link f;
  const auto half = tensor::zeros({std::int64_t(max_batch_bytes) / 4 / 2});
  const auto large = tensor::zeros({std::int64_t(max_batch_bytes) / 4});
  f.schedule(4, {half});
  f.schedule(5, {half});
  f.schedule(6, {large});
  f.schedule(7);
  f.settle();
  // A request follows one with large inputs when those have arrived.
  for (const auto& sent :
       {std::vector{4UL}, std::vector{5UL}, std::vector{6UL}}) {
    while (ordinals(f.node.requests.back()) != sent) {
      ASSERT_GT(f.node.requests.size(), 0u);
      f.answer(remote_ends{});
      ASSERT_FALSE(f.node.requests.empty());
    }
  }
  while (f.node.requests.size() > 1)
    f.answer(remote_ends{});
  EXPECT_EQ(ordinals(f.node.requests.front()), std::vector{6UL});
  // The channel rejects it: only its execution fails.
  f.answer(caf::make_error(ec::invalid, std::string{"too large"}));
  ASSERT_EQ(f.heard.errors.size(), 1u);
  EXPECT_EQ(f.heard.errors.at(6), "worker 3 (host:1): too large");
  EXPECT_FALSE(f.has_ended());
  EXPECT_EQ(ordinals(f.node.requests.back()), std::vector{7UL});
}

TEST(ClosureLink, TellsWhatHasFailedAndWhatWasStopped) {
  link_fixture f;
  f.schedule(0);
  f.schedule(1);
  f.settle();
  for (const auto ordinal : {1, 9}) // it does not know the second one
    caf::anon_send(f.link, coordinator::cancel{execution(ordinal)});
  f.settle();
  EXPECT_EQ(f.node.requests.back().what.cancelled, std::vector{execution(1)});
  f.answer({.ended = {},
            .failed = {{execution(0), "it has\nthrown"}},
            .stopped = {{execution(1)}}});
  EXPECT_EQ(f.heard.errors.at(0), "worker 3 (host:1): it has\nthrown");
  EXPECT_EQ(f.heard.stopped, std::set<std::uint64_t>{1});
  // What the node says again has no effect.
  f.answer(
    {.ended = {}, .failed = {{execution(1), ""}}, .stopped = {{execution(0)}}});
  EXPECT_EQ(f.heard.errors.size(), 1u);
  EXPECT_EQ(f.heard.stopped.size(), 1u);
}

TEST(ClosureLink, StopsAnExecutionThatWaits) {
  busy_link f;
  for (std::uint64_t i = 4; i < 30; ++i)
    f.schedule(i);
  f.settle();
  caf::anon_send(f.link, coordinator::cancel{execution(20)});
  f.settle();
  EXPECT_EQ(f.heard.stopped, std::set<std::uint64_t>{20});
  f.answer(remote_ends{});
  EXPECT_TRUE(f.node.requests.back().what.cancelled.empty());
  const auto sent = ordinals(f.node.requests.back());
  EXPECT_EQ(sent.size(), 25u);
  EXPECT_EQ(std::ranges::count(sent, 20), 0);
}

TEST(ClosureLink, FetchesResultsThatTheNodeKeeps) {
  link_fixture f;
  remote_ends ends;
  for (std::uint64_t i = 0; i < 6; ++i) {
    f.schedule(i);
    ends.ended.push_back({{execution(i), {}}, 0, true});
  }
  f.settle();
  f.answer(ends);
  std::set<coordinator::execution> confirmed;
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(f.node.fetches.size(), 1u); // one at a time
    auto [from, answer] = f.node.fetches.front();
    f.node.fetches.pop_front();
    f.on_node([&, from = from, answer = answer]() mutable {
      if (from.ordinal == 2)
        answer.deliver(caf::make_error(ec::invalid, std::string{"too large"}));
      else
        answer.deliver(tensors{tensor::full({}, double(from.ordinal))});
    });
    for (const auto& one : f.node.requests)
      confirmed.insert(one.what.fetched.begin(), one.what.fetched.end());
    EXPECT_TRUE(confirmed.contains(from)) << from.ordinal;
    while (f.node.requests.size() > 1) // the node keeps the last one
      f.answer(remote_ends{});
  }
  EXPECT_EQ(confirmed.size(), 6u);
  EXPECT_EQ(f.heard.results.size(), 5u);
  EXPECT_EQ(f.heard.results.at(5).at(0).item<float>(), 5);
  EXPECT_EQ(f.heard.errors.at(2), "worker 3 (host:1): too large");
}

TEST(ClosureLink, EndsIfTheNodeBreaksTheProtocol) {
  const std::vector<std::pair<remote_ends, tensors>> wrong{
    {ended({{{execution(0), {}}, 2}}), {tensor::full({}, 1)}},
    {ended({{{execution(0), {}}, 0}}), {tensor::full({}, 1)}},
    {ended({{{execution(0), {}}, 1, true}}), {tensor::full({}, 1)}},
    {ended({{{execution(9), {}}}}), {}},
    {ended({{{execution(0), {}}}, {{execution(0), {}}}}), {}},
    {ended({{{execution(0), {}}, 0, true}, {{execution(0), {}}, 0, true}}), {}},
    {remote_ends{{{execution(0), 2}}, {}, {}, {}}, {tensor::full({}, 1)}},
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    link_fixture f;
    f.schedule(0);
    f.settle();
    f.answer(wrong[i].first, wrong[i].second);
    ASSERT_TRUE(f.has_ended()) << i;
    f.watcher->receive([&](const caf::down_msg& x) {
      EXPECT_NE(to_string(x.reason).find(wrong[i].first.reports.empty()
                                           ? "has reported the end of closure"
                                           : "has sent a report of closure"),
                std::string::npos)
        << i;
    });
  }
}

TEST(ClosureLink, EndsIfTheWorkerCannotBeUsed) {
  for (const auto code : {ec::refused, ec::stalled, ec::busy, ec::invalid}) {
    link_fixture f;
    f.schedule(0);
    f.settle();
    f.answer(caf::make_error(code, std::string{"no"}));
    EXPECT_TRUE(f.has_ended());
    EXPECT_TRUE(f.heard.errors.empty());
  }
  link_fixture f;
  caf::anon_send_exit(f.worker, caf::exit_reason::kill);
  f.settle();
  EXPECT_TRUE(f.has_ended());
}

} // namespace
} // namespace troupe

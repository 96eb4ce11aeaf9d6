#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/coordinator/remote_closure_worker.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/actors/coordinator/executions.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using testing::execution;

using received_runs =
  std::vector<std::pair<coordinator::execution, shared_closure>>;

/// A closure worker that notes what it receives.
closure_worker_actor::behavior_type
noting_worker(closure_worker_actor::pointer, received_runs* runs,
              std::vector<coordinator::execution>* cancelled) {
  return {
    [runs](const coordinator::run& x, const shared_closure& what) {
      runs->emplace_back(x.execution, what);
    },
    [cancelled](const coordinator::cancel& x) {
      cancelled->push_back(x.execution);
    },
    [](atom::next) {},
  };
}

/// An answer to a request, or its error.
struct answer {
  remote_ends ends;
  tensors results;
  std::string error;
};

/// A remote closure worker whose closures are not executed: the test says when
/// they end.
struct remote_fixture {
  ~remote_fixture() { runs.clear(); }

  void set_up(const std::string& problem = {}) {
    auto setup = std::make_shared<worker_setup>();
    setup->problem = problem;
    setup->closures["known"] = [](closure_environment&, const tensors& xs) {
      return xs;
    };
    setup->spawn = [this](const closure_worker_owner_actor& to) {
      owner = to;
      return simulator.spawn(noting_worker, &runs, &cancelled);
    };
    caf::anon_send(remote, shared_setup{setup});
    simulator.run_until_idle();
  }

  auto request(remote_work what, tensors inputs = {}) {
    auto open =
      client->request(caf::actor_cast<remote_closure_worker_actor>(remote),
                      3600s, std::move(what), std::move(inputs));
    simulator.run_until_idle();
    return open;
  }
  auto poll(std::vector<remote_run> runs, tensors inputs = {}) {
    remote_work work;
    work.runs = std::move(runs);
    return request(std::move(work), std::move(inputs));
  }
  template <class Handle>
  std::optional<answer> read(Handle& open) {
    simulator.run_until_idle();
    if (!client->has_next_message())
      return std::nullopt;
    answer out;
    open.receive(
      [&](remote_ends& ends, tensors& results) {
        out.ends = std::move(ends);
        out.results = std::move(results);
      },
      [&](const caf::error& e) { out.error = simulator.sys.render(e); });
    return out;
  }

  void report(std::uint64_t ordinal, tensors what) {
    caf::anon_send(owner, std::uint64_t{0}, execution(ordinal),
                   std::move(what));
    simulator.run_until_idle();
  }

  void end(std::uint64_t ordinal, tensors results) {
    caf::anon_send(owner, std::uint64_t{0},
                   coordinator::ended{execution(ordinal), {}},
                   coordinator::payload{
                     std::make_shared<const tensors>(std::move(results))});
    simulator.run_until_idle();
  }

  received_runs runs;
  std::vector<coordinator::execution> cancelled;
  simulation::simulator simulator;
  caf::scoped_actor client{simulator.sys, true};
  closure_worker_owner_actor owner;
  remote_closure_worker_internal_actor remote =
    simulator.spawn(remote_closure_worker);
};

remote_run known(std::uint64_t ordinal, std::uint32_t inputs = 0) {
  return {{execution(ordinal)}, "known", inputs};
}

TEST(RemoteClosureWorker, AnswersWhenExecutionsHaveEnded) {
  remote_fixture f;
  auto first =
    f.poll({known(0, 1), known(1, 2)},
           {tensor::full({}, 1), tensor::full({}, 2), tensor::full({}, 3)});
  EXPECT_TRUE(f.runs.empty());
  f.set_up();
  ASSERT_EQ(f.runs.size(), 2u); // they have waited for it
  EXPECT_FALSE(f.read(first));
  f.end(1, {tensor::full({}, 5)});
  const auto one = f.read(first);
  ASSERT_TRUE(one && one->error.empty());
  ASSERT_EQ(one->ends.ended.size(), 1u);
  EXPECT_EQ(one->ends.ended[0].end.execution, execution(1));
  EXPECT_EQ(one->ends.ended[0].num_results, 1u);
  EXPECT_EQ(one->results.at(0).item<float>(), 5);
  f.end(0, {}); // no request is open
  auto second = f.poll({});
  const auto two = f.read(second);
  ASSERT_TRUE(two && two->ends.ended.size() == 1);
  EXPECT_EQ(two->ends.ended[0].end.execution, execution(0));
  f.end(0, {}); // a second time: nothing
  auto third = f.poll({});
  EXPECT_FALSE(f.read(third));
}

TEST(RemoteClosureWorker, AnswersWhenExecutionsHaveReported) {
  remote_fixture f;
  f.set_up();
  auto first = f.poll({known(0), known(1)});
  f.report(1, {tensor::full({}, 5), tensor::full({}, 6)});
  const auto one = f.read(first);
  ASSERT_TRUE(one && one->error.empty());
  ASSERT_EQ(one->ends.reports.size(), 1u);
  EXPECT_EQ(one->ends.reports[0].execution, execution(1));
  EXPECT_EQ(one->ends.reports[0].num_tensors, 2u);
  EXPECT_EQ(one->results.at(1).item<float>(), 6);
  // Reports and ends that no poll waits for are in one answer.
  f.report(0, {tensor::full({}, 7)});
  f.end(0, {tensor::full({}, 8)});
  f.report(1, {});
  f.report(0, {tensor::full({}, 9)}); // it has ended
  auto second = f.poll({});
  const auto two = f.read(second);
  ASSERT_TRUE(two && two->ends.reports.size() == 2);
  EXPECT_EQ(two->ends.reports[0].execution, execution(0));
  EXPECT_EQ(two->ends.reports[1].execution, execution(1));
  ASSERT_EQ(two->results.size(), 2u);
  EXPECT_EQ(two->results[0].item<float>(), 7);
  EXPECT_EQ(two->results[1].item<float>(), 8);
}

/// So the next executions never wait for a request that is open.
TEST(RemoteClosureWorker, AnswersAPollWhenTheNextOneArrives) {
  remote_fixture f;
  f.set_up();
  auto first = f.poll({known(0)});
  auto second = f.poll({known(1)});
  const auto answer = f.read(first);
  ASSERT_TRUE(answer && answer->error.empty());
  EXPECT_TRUE(answer->ends.ended.empty());
  EXPECT_EQ(f.runs.size(), 2u);
  EXPECT_FALSE(f.read(second));
}

TEST(RemoteClosureWorker, AnswersAPollInTime) {
  remote_fixture f;
  f.set_up();
  auto open = f.poll({known(0)});
  f.simulator.advance(poll_timeout - 100ms);
  EXPECT_FALSE(f.read(open));
  f.simulator.advance(200ms);
  const auto answer = f.read(open);
  ASSERT_TRUE(answer && answer->error.empty());
  EXPECT_TRUE(answer->ends.ended.empty());
  auto next = f.poll({});
  f.simulator.advance(poll_timeout - 100ms);
  EXPECT_FALSE(f.read(next));
  f.end(0, {});
  EXPECT_TRUE(f.read(next));
}

TEST(RemoteClosureWorker, SaysWhenLargeInputsHaveArrived) {
  remote_fixture f;
  f.set_up();
  auto open =
    f.poll({known(0, 1)}, {tensor::zeros({std::int64_t(max_batch_bytes) / 4})});
  EXPECT_TRUE(f.read(open));
}

TEST(RemoteClosureWorker, LimitsTheResultsOfAnAnswer) {
  remote_fixture f;
  f.set_up();
  std::vector<remote_run> runs;
  for (std::uint64_t i = 0; i < 9; ++i)
    runs.push_back(known(i));
  auto open = f.poll(runs);
  const auto quarter = tensor::zeros({std::int64_t(max_batch_bytes) / 4 / 4});
  f.end(0, {});
  ASSERT_TRUE(f.read(open));
  for (std::uint64_t i = 1; i < 9; ++i)
    f.end(i, {quarter});
  for (std::uint64_t left = 8; left > 0;) {
    auto next = f.poll({});
    const auto answer = f.read(next);
    ASSERT_TRUE(answer);
    const auto count = answer->ends.ended.size();
    EXPECT_EQ(count, std::min<std::uint64_t>(left, 3));
    EXPECT_EQ(answer->results.size(), count);
    left -= count;
  }
}

TEST(RemoteClosureWorker, KeepsLargeResultsUntilTheyAreFetched) {
  remote_fixture f;
  f.set_up();
  auto open = f.poll({known(0), known(1)});
  const auto large = tensor::full({std::int64_t(max_batch_bytes) / 4}, 2);
  f.end(0, {large});
  const auto answer = f.read(open);
  ASSERT_TRUE(answer && answer->ends.ended.size() == 1);
  EXPECT_TRUE(answer->ends.ended[0].is_kept);
  EXPECT_TRUE(answer->results.empty());
  const auto worker = caf::actor_cast<remote_closure_worker_actor>(f.remote);
  const auto fetch = [&] {
    auto request =
      f.client->request(worker, 3600s, atom::results_v, execution(0));
    f.simulator.run_until_idle();
    std::string error;
    request.receive(
      [&](const tensors& results) {
        EXPECT_TRUE(same_bits(results.at(0), large));
      },
      [&](const caf::error& e) { error = f.simulator.sys.render(e); });
    return error;
  };
  EXPECT_EQ(fetch(), "");
  EXPECT_EQ(fetch(), ""); // the first answer was lost
  // The connection may be full of results.
  auto held = f.poll({});
  f.end(1, {});
  f.simulator.advance(2 * poll_timeout);
  EXPECT_FALSE(f.read(held));
  remote_work confirmed;
  confirmed.fetched = {execution(0)};
  auto next = f.request(confirmed);
  const auto ends = f.read(held);
  ASSERT_TRUE(ends && ends->ends.ended.size() == 1);
  EXPECT_EQ(fetch(), "protocol(\"the worker keeps no results of this "
                     "execution\")");
  static_cast<void>(next);
}

TEST(RemoteClosureWorker, RejectsWhatItCannotExecute) {
  remote_fixture f;
  f.set_up();
  auto open = f.poll({{{execution(0)}, "other", 0}});
  const auto answer = f.read(open);
  ASSERT_TRUE(answer && answer->ends.failed.size() == 1);
  EXPECT_EQ(answer->ends.failed[0].execution, execution(0));
  EXPECT_EQ(answer->ends.failed[0].text,
            "no closure \"other\" is registered; there are: known");
  const auto error_of = [&](std::vector<remote_run> runs, tensors inputs) {
    auto wrong = f.poll(std::move(runs), std::move(inputs));
    const auto found = f.read(wrong);
    return found ? found->error : "no answer";
  };
  EXPECT_EQ(error_of({known(1, 2)}, {tensor::full({}, 1)}),
            "protocol(\"a message has 1 inputs for 2\")");
  EXPECT_EQ(error_of({known(1)}, {tensor::full({}, 1)}),
            "protocol(\"a message has 1 inputs for 0\")");
  EXPECT_TRUE(f.runs.empty());
}

TEST(RemoteClosureWorker, LimitsItsExecutions) {
  remote_fixture f;
  f.set_up();
  std::vector<remote_run> many;
  for (std::uint64_t i = 0; i < max_executions_on_node; ++i)
    many.push_back(known(i));
  auto all = f.poll(many);
  EXPECT_FALSE(f.read(all));
  f.end(0, {tensor::zeros({std::int64_t(max_batch_bytes) / 4})}); // is kept
  ASSERT_TRUE(f.read(all));
  auto one_more = f.poll({known(max_executions_on_node)});
  const auto rejected = f.read(one_more);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->error,
            "protocol(\"a worker has at most 4096 executions at once\")");
  f.end(1, {});
  f.end(2, {});
  auto next = f.poll({});
  ASSERT_TRUE(f.read(next));
  auto fits = f.poll({known(max_executions_on_node)});
  EXPECT_FALSE(f.read(fits));
}

TEST(RemoteClosureWorker, LimitsTheTextsOfAnAnswer) {
  remote_fixture f;
  f.set_up();
  std::vector<remote_run> runs;
  for (std::uint64_t i = 0; i < 100; ++i)
    runs.push_back(known(i));
  auto open = f.poll(runs);
  f.end(0, {});
  ASSERT_TRUE(f.read(open));
  const auto thrown = std::make_exception_ptr(
    std::runtime_error{std::string(2 * max_failure_bytes, 'x')});
  for (std::uint64_t i = 1; i < 100; ++i)
    caf::anon_send(f.owner, std::uint64_t{0}, coordinator::failed{execution(i)},
                   closure_failure{thrown, 0});
  auto next = f.poll({});
  const auto answer = f.read(next);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->ends.failed.size(), max_batch_bytes / max_failure_bytes);
  for (const auto& one : answer->ends.failed)
    EXPECT_EQ(one.text.size(), max_failure_bytes);
}

TEST(RemoteClosureWorker, RefusesWithoutASetup) {
  remote_fixture refused;
  auto early = refused.poll({known(0)});
  refused.set_up("no server");
  const auto first = refused.read(early);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->error, "refused(\"no server\")");
  auto late = refused.poll({known(1)});
  const auto second = refused.read(late);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->error, "refused(\"no server\")");
}

TEST(RemoteClosureWorker, LimitsReportsThatAreNotFetched) {
  remote_fixture f;
  f.set_up();
  auto first = f.poll({known(0)});
  auto second = f.poll({}); // answers the first one
  ASSERT_TRUE(f.read(first));
  for (std::size_t i = 0; i <= max_waiting_reports + 1; ++i)
    caf::anon_send(f.owner, std::uint64_t{0}, execution(0), tensors{});
  f.simulator.run_until_idle();
  std::size_t reports = 0;
  for (auto answer = f.read(second); answer;) {
    reports += answer->ends.reports.size();
    if (!answer->ends.failed.empty()) {
      EXPECT_NE(
        answer->ends.failed[0].text.find("reports that the coordinator"),
        std::string::npos);
      break;
    }
    auto next = f.poll({});
    answer = f.read(next);
    ASSERT_TRUE(answer);
  }
  EXPECT_GE(reports, max_waiting_reports);
}

TEST(RemoteClosureWorker, StopsExecutions) {
  remote_fixture f;
  remote_work work;
  work.runs = {known(0), known(1)};
  work.cancelled = {execution(0), execution(7)};
  auto open = f.request(work);
  const auto before_setup = f.read(open);
  ASSERT_TRUE(before_setup && before_setup->ends.stopped.size() == 1);
  f.set_up();
  ASSERT_EQ(f.runs.size(), 1u);
  work = {};
  work.cancelled = {execution(1)};
  auto next = f.request(work);
  EXPECT_EQ(f.cancelled, std::vector{execution(1)});
  EXPECT_EQ(f.runs[0].second->stopped_attempts.load(), 1u);
  EXPECT_FALSE(f.read(next));
  caf::anon_send(f.owner, std::uint64_t{0}, coordinator::stopped{execution(1)});
  const auto after = f.read(next);
  ASSERT_TRUE(after && after->ends.stopped.size() == 1);
  EXPECT_EQ(after->ends.stopped[0].execution, execution(1));
}

} // namespace
} // namespace troupe

#include "troupe/actors/coordinator/remote_batch.hpp"
#include "troupe/actors/coordinator/remote_closure_worker.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/simulation/simulator.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

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
    [](atom::wake) {},
  };
}

coordinator::execution execution(std::uint64_t ordinal) {
  return {.ordinal = ordinal};
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

  auto request(remote_runs what, tensors inputs = {}) {
    auto open =
      client->request(caf::actor_cast<remote_closure_worker_actor>(remote),
                      3600s, std::move(what), std::move(inputs));
    simulator.run_until_idle();
    return open;
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
    f.request({{known(0, 1), known(1, 2)}},
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
  EXPECT_EQ(one->ends.ended[0].results, 1u);
  EXPECT_EQ(one->results.at(0).item<float>(), 5);
  f.end(0, {}); // no request is open
  auto second = f.request({});
  const auto two = f.read(second);
  ASSERT_TRUE(two && two->ends.ended.size() == 1);
  EXPECT_EQ(two->ends.ended[0].end.execution, execution(0));
  f.end(0, {}); // a second time: nothing
  auto third = f.request({});
  EXPECT_FALSE(f.read(third));
}

TEST(RemoteClosureWorker, AnswersAfterAnInterval) {
  remote_fixture f;
  f.set_up();
  auto open = f.request({{known(0)}});
  EXPECT_FALSE(f.read(open));
  f.simulator.advance(2 * answer_interval + 100ms);
  const auto answer = f.read(open);
  ASSERT_TRUE(answer && answer->error.empty());
  EXPECT_TRUE(answer->ends.empty());
  auto next = f.request({});
  f.end(0, {});
  EXPECT_TRUE(f.read(next));
}

TEST(RemoteClosureWorker, KeepsLargeResults) {
  remote_fixture f;
  f.set_up();
  auto open = f.request({{known(0)}});
  const auto large = tensor::full({std::int64_t(max_batch_bytes) / 4}, 2);
  f.end(0, {large});
  const auto answer = f.read(open);
  ASSERT_TRUE(answer && answer->ends.ended.size() == 1);
  EXPECT_TRUE(answer->ends.ended[0].is_kept);
  EXPECT_TRUE(answer->results.empty());
  const auto worker = caf::actor_cast<remote_closure_worker_actor>(f.remote);
  for (const bool is_first : {true, false}) {
    auto fetch = f.client->request(worker, 3600s, execution(0));
    f.simulator.run_until_idle();
    std::string error;
    fetch.receive(
      [&](const tensors& results) {
        EXPECT_TRUE(is_first && same_bits(results.at(0), large));
      },
      [&](const caf::error& e) { error = f.simulator.sys.render(e); });
    EXPECT_EQ(error.empty(), is_first) << error;
  }
}

TEST(RemoteClosureWorker, RejectsWhatItCannotExecute) {
  remote_fixture f;
  f.set_up();
  auto open = f.request({{{{execution(0)}, "other", 0}, known(1, 2)}},
                        {tensor::full({}, 1)});
  const auto answer = f.read(open);
  ASSERT_TRUE(answer && answer->ends.failed.size() == 2);
  EXPECT_EQ(answer->ends.failed[0].text,
            "no closure \"other\" is registered; there are: known");
  EXPECT_EQ(answer->ends.failed[1].text,
            "the request has fewer inputs than it says");
  EXPECT_TRUE(f.runs.empty());
  remote_fixture refused;
  auto early = refused.request({{known(0)}});
  refused.set_up("no server");
  const auto first = refused.read(early);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->error, "refused(\"no server\")");
  auto late = refused.request({{known(1)}});
  const auto second = refused.read(late);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->error, "refused(\"no server\")");
}

TEST(RemoteClosureWorker, StopsExecutions) {
  remote_fixture f;
  auto open = f.request({{known(0), known(1)}});
  caf::anon_send(caf::actor_cast<remote_closure_worker_actor>(f.remote),
                 coordinator::cancel{execution(0)});
  const auto before_setup = f.read(open);
  ASSERT_TRUE(before_setup && before_setup->ends.stopped.size() == 1);
  f.set_up();
  ASSERT_EQ(f.runs.size(), 1u);
  caf::anon_send(caf::actor_cast<remote_closure_worker_actor>(f.remote),
                 coordinator::cancel{execution(1)});
  f.simulator.run_until_idle();
  EXPECT_EQ(f.cancelled, std::vector{execution(1)});
  EXPECT_EQ(f.runs[0].second->stopped_attempts.load(), 1u);
  auto next = f.request({});
  caf::anon_send(f.owner, std::uint64_t{0}, coordinator::stopped{execution(1)});
  const auto after = f.read(next);
  ASSERT_TRUE(after && after->ends.stopped.size() == 1);
  EXPECT_EQ(after->ends.stopped[0].execution, execution(1));
}

} // namespace
} // namespace troupe

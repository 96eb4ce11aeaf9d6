#include "troupe/actors/coordinator/closure_worker.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

using troupe::test::patience;
using notice = std::shared_ptr<std::promise<void>>;

struct accept_push {
  parameter_server::push_result operator()(const replica_push&,
                                           const tensors&) const {
    return parameter_server::push_result::accepted;
  }
};
struct answer_pull {
  caf::result<parameter_server::pulled, tensors>
  operator()(const replica_pull&, const tensors&) const {
    return {parameter_server::pulled{}, tensors{}};
  }
};
struct ignore_release {
  void operator()(atom::release, std::uint64_t, std::uint32_t,
                  const coordinator::execution&) const {}
};

/// A router of which only reads, and the requests of replicas, matter.
template <class F, class Push = accept_push, class Pull = answer_pull,
          class Release = ignore_release>
shard_router_actor::behavior_type
behavior_of_reads(F on_pull, Push on_step_push = {}, Pull on_step_pull = {},
                  Release on_release = {}) {
  return {
    [](std::uint32_t, const new_part&, const tensor&) {
      return std::uint64_t{0};
    },
    [](std::uint32_t, const new_optimizer&) { return std::uint64_t{0}; },
    std::move(on_pull),
    [](std::uint32_t, const optimizer_pull&) { return tensor{}; },
    [](std::uint32_t, const change_list&, const tensors&) {
      return std::uint64_t{0};
    },
    [](std::uint32_t, const execution_effects&, const tensors&) {
      return std::uint64_t{0};
    },
    [](std::uint32_t shard, const coordinator::decision& x) {
      return coordinator::decided{shard, x.execution.ordinal};
    },
    [](std::uint32_t, atom::info) { return part_table{}; },
    [](std::uint32_t, atom::status) { return shard_status{}; },
    [](std::uint32_t, const removal&) { return std::uint64_t{0}; },
    [](std::uint32_t, const new_training&, const parameter_server::training&) {
      return std::uint64_t{0};
    },
    std::move(on_step_push),
    std::move(on_step_pull),
    std::move(on_release),
    [](const lead_training&) { return std::uint64_t{0}; },
    [](atom::stop, std::uint64_t) {},
    [](const parameter_server::contributed&) {},
    [](const copy_table&) {},
  };
}

struct open_reads {
  std::vector<caf::typed_response_promise<tensor>> open;
};

/// A router that keeps reads open. It calls `on_read` for each.
shard_router_actor::behavior_type
waiting_router(shard_router_actor::stateful_pointer<open_reads> self,
               const std::function<void(open_reads&)>& on_read) {
  return behavior_of_reads(
    [self, on_read](std::uint32_t, const part_pull&, const tensors&) {
      auto answer = self->make_response_promise<tensor>();
      self->state.open.push_back(answer);
      on_read(self->state);
      return answer;
    });
}

/// What a router is asked for: numbers of changes and of operands.
struct asked_reads {
  std::mutex lock; // guards `all`
  std::vector<std::pair<std::size_t, std::size_t>> all;
};

/// A router that answers each read with the same tensor.
shard_router_actor::behavior_type
listing_router(shard_router_actor::pointer, const tensor& value,
               const std::shared_ptr<asked_reads>& to) {
  return behavior_of_reads(
    [value, to](std::uint32_t, const part_pull& x, const tensors& operands) {
      const std::lock_guard hold{to->lock};
      to->all.emplace_back(x.after.changes.size(), operands.size());
      return value;
    });
}

/// Answers the first read after the second one.
void answer_two(open_reads& x) {
  if (x.open.size() == 2)
    for (auto i = x.open.rbegin(); i != x.open.rend(); ++i)
      i->deliver(tensor::full({}, 1));
}

/// Tells when an execution was stopped.
closure_worker_owner_actor::behavior_type
owner(closure_worker_owner_actor::pointer, notice stopped) {
  return {
    [](std::uint64_t, const coordinator::execution&, const tensors&) {},
    [](std::uint64_t, const coordinator::ended&, const coordinator::payload&) {
    },
    [](std::uint64_t, const coordinator::failed&, const closure_failure&) {},
    [stopped](std::uint64_t, const coordinator::stopped&) {
      stopped->set_value();
    },
  };
}

/// What an owner has heard, in this order: ordinals that have ended.
struct ended_list {
  std::mutex lock; // guards `ordinals` and `reports`
  std::vector<std::uint64_t> ordinals;
  std::vector<float> reports;
  std::promise<void> complete;
  std::size_t expected = 0;
};

closure_worker_owner_actor::behavior_type
listing_owner(closure_worker_owner_actor::pointer,
              const std::shared_ptr<ended_list>& to, const notice& stopped) {
  return {
    [to](std::uint64_t, const coordinator::execution&, const tensors& what) {
      const std::lock_guard hold{to->lock};
      to->reports.push_back(what.at(0).item<float>());
    },
    [to](std::uint64_t, const coordinator::ended& x,
         const coordinator::payload&) {
      const std::lock_guard hold{to->lock};
      to->ordinals.push_back(x.execution.ordinal);
      if (to->ordinals.size() == to->expected)
        to->complete.set_value();
    },
    [](std::uint64_t, const coordinator::failed&, const closure_failure&) {},
    [stopped](std::uint64_t, const coordinator::stopped&) {
      if (stopped)
        stopped->set_value();
    },
  };
}

/// Waits until an owner has heard all that it expects, and ends the actors.
void await_end(ended_list& ended, const closure_worker_actor& worker,
               const shard_router_actor& router,
               const closure_worker_owner_actor& owner) {
  EXPECT_EQ(ended.complete.get_future().wait_for(patience),
            std::future_status::ready);
  caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(router, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
}

/// With two slots the worker asks for two closures before any is answered. One
/// that reads nothing ends only when a slot is free.
TEST(ClosureWorker, ExecutesAClosureWhileAnotherOneReads) {
  runtime actors;
  const auto ended = std::make_shared<ended_list>();
  ended->expected = 3;
  std::atomic<int> own_environment = 0;
  {
    auto router = actors.system().spawn(waiting_router, answer_two);
    auto to = actors.system().spawn(listing_owner, ended, notice{});
    auto worker = actors.system().spawn(
      closure_worker,
      closure_worker_config{.owner = to, .router = router, .interleaved = 2});
    const auto reader = std::make_shared<closure>(
      [&](closure_environment& self) -> coordinator::payload {
        const auto ordinal = self.execution.ordinal;
        const auto random = current_context().random.step;
        const closure_environment::read part{{0, 1}, {}};
        self.pull({&part, 1});
        own_environment +=
          current_closure() == &self && self.execution.ordinal == ordinal
          && current_context().random.step == random && random == ordinal;
        return {};
      },
      nullptr);
    const auto other = std::make_shared<closure>(
      [](closure_environment&) -> coordinator::payload { return {}; }, nullptr);
    for (std::uint64_t i = 0; i < 2; ++i)
      caf::anon_send(worker, coordinator::run{{i, 1}, 0}, reader);
    caf::anon_send(worker, coordinator::run{{2, 1}, 0}, other);
    await_end(*ended, worker, router, to);
  }
  release_caf_logger();
  const std::lock_guard hold{ended->lock};
  ASSERT_EQ(ended->ordinals.size(), 3U);
  EXPECT_EQ(ended->ordinals.front(), 1U) << "its read was answered first";
  EXPECT_EQ(own_environment, 2);
}

/// What a router hears of replicas.
struct replica_log {
  std::mutex lock; // guards all below
  std::vector<replica_push> pushes;
  std::vector<replica_pull> pulls;
  std::vector<std::uint32_t> released;
};

/// A router that answers pulls with their steps, and pushes of step 9 not.
shard_router_actor::behavior_type
router_of_replicas(shard_router_actor::pointer self,
                   const std::shared_ptr<replica_log>& log,
                   const notice& released) {
  return behavior_of_reads(
    [](std::uint32_t, const part_pull&, const tensors&) { return tensor{}; },
    [=](const replica_push& x, const tensors&) {
      const std::lock_guard hold{log->lock};
      log->pushes.push_back(x);
      auto answer =
        self->make_response_promise<parameter_server::push_result>();
      if (x.id.step == 8)
        answer.deliver(caf::make_error(
          ec::superseded, std::string{"a later training has begun"}));
      else if (x.id.step != 9)
        answer.deliver(parameter_server::push_result::accepted);
      return answer;
    },
    [=](const replica_pull& x,
        const tensors& rows) -> caf::result<parameter_server::pulled, tensors> {
      const std::lock_guard hold{log->lock};
      log->pulls.push_back(x);
      if (x.step == 9)
        return self->make_response_promise<parameter_server::pulled, tensors>();
      parameter_server::pulled answer;
      answer.next_step = x.step + 100 * rows.size();
      return {std::move(answer), tensors{tensor::full({}, double(x.shard))}};
    },
    [=](atom::release, std::uint64_t, std::uint32_t replica,
        const coordinator::execution& by) {
      EXPECT_EQ(by, (coordinator::execution{0, 1}));
      const std::lock_guard hold{log->lock};
      log->released.push_back(replica);
      released->set_value();
    });
}

TEST(ClosureWorker, PullsAndPushesForTheStepsOfAReplica) {
  runtime actors;
  const auto log = std::make_shared<replica_log>();
  const auto ended = std::make_shared<ended_list>();
  ended->expected = 1;
  const auto released = std::make_shared<std::promise<void>>();
  std::vector<closure_environment::step_values> read;
  std::string problem;
  {
    auto router = actors.system().spawn(router_of_replicas, log, released);
    auto to = actors.system().spawn(listing_owner, ended, notice{});
    auto worker = actors.system().spawn(
      closure_worker, closure_worker_config{.owner = to, .router = router});
    const auto what = std::make_shared<closure>(
      [&](closure_environment& self) -> coordinator::payload {
        using pull = closure_environment::step_pull;
        using push = closure_environment::step_push;
        const std::vector<pull> pulls{{{0, 1, 4, 6, {0}, {0}}, {}},
                                      {{1, 1, 4, 6, {0}, {1}}, {tensor{}}}};
        read = self.pull_step(pulls);
        self.report({tensor::full({}, 5)});
        const std::vector<push> pushes{{{0, 1, {4, 6, 0}, 6, {}}, {}},
                                       {{1, 1, {4, 6, 0}, 6, {}}, {}}};
        self.push_step(pushes, {});
        self.report({tensor::full({}, 6)});
        try {
          // The error does not wait for the answer of the other shard.
          const std::vector<push> last{{{0, 1, {4, 9, 0}, 6, {}}, {}},
                                       {{1, 1, {4, 8, 0}, 6, {}}, {}}};
          self.push_step(last, {});
        } catch (const job_error& e) {
          problem = e.what();
        }
        EXPECT_THROW(
          self.report({tensor::zeros({std::int64_t(max_report_bytes)})}),
          std::logic_error);
        return {};
      },
      nullptr);
    caf::anon_send(worker, coordinator::run{{0, 1}, 0}, what);
    await_end(*ended, worker, router, to);
  }
  release_caf_logger();
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].answer.next_step, 6U);
  EXPECT_EQ(read[1].answer.next_step, 106U);
  EXPECT_EQ(read[1].values.at(0).item<float>(), 1);
  ASSERT_EQ(log->pushes.size(), 4U);
  EXPECT_EQ(log->pushes[0].by, (coordinator::execution{0, 1}));
  EXPECT_EQ(log->pulls[1].by, (coordinator::execution{0, 1}));
  EXPECT_NE(problem.find("a later training has begun"), std::string::npos);
  EXPECT_EQ(ended->reports, (std::vector<float>{5, 6}));
}

TEST(ClosureWorker, ReleasesTheReplicaOfAClosureThatIsStopped) {
  runtime actors;
  const auto log = std::make_shared<replica_log>();
  const auto stopped = std::make_shared<std::promise<void>>();
  const auto released = std::make_shared<std::promise<void>>();
  const auto begun = std::make_shared<std::promise<void>>();
  {
    auto router = actors.system().spawn(router_of_replicas, log, released);
    auto to = actors.system().spawn(owner, stopped);
    auto worker = actors.system().spawn(
      closure_worker, closure_worker_config{.owner = to, .router = router});
    const coordinator::execution which{0, 1};
    const auto what = std::make_shared<closure>(
      [&](closure_environment& self) -> coordinator::payload {
        begun->set_value();
        const closure_environment::step_push push{{0, 1, {4, 9, 0}, 0, {}}, {}};
        self.push_step({&push, 1}, {}); // is not answered
        return {};
      },
      nullptr);
    caf::anon_send(worker, coordinator::run{which, 0}, what);
    EXPECT_EQ(begun->get_future().wait_for(patience),
              std::future_status::ready);
    caf::anon_send(worker, coordinator::cancel{which});
    EXPECT_EQ(stopped->get_future().wait_for(patience),
              std::future_status::ready);
    EXPECT_EQ(released->get_future().wait_for(patience),
              std::future_status::ready);
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(router, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(to, caf::exit_reason::user_shutdown);
  }
  release_caf_logger();
  const std::lock_guard hold{log->lock};
  EXPECT_EQ(log->released, std::vector<std::uint32_t>{4});
}

/// Code that ends a closure that waits still belongs to the closure.
TEST(ClosureWorker, StopsAClosureThatWaitsInsideOfItsEnvironment) {
  runtime actors;
  const auto asked = std::make_shared<std::promise<void>>();
  const auto stopped = std::make_shared<std::promise<void>>();
  std::atomic<bool> was_inside = false;
  {
    auto router = actors.system().spawn(
      waiting_router, [asked](open_reads&) { asked->set_value(); });
    auto to = actors.system().spawn(owner, stopped);
    auto worker = actors.system().spawn(
      closure_worker, closure_worker_config{.owner = to, .router = router});
    const coordinator::execution which{0, 1};
    const auto what = std::make_shared<closure>(
      [&](closure_environment& self) -> coordinator::payload {
        try {
          const closure_environment::read part{{0, 1}, {}};
          self.pull({&part, 1});
        } catch (...) {
          was_inside = current_closure() == &self;
          throw;
        }
        return {};
      },
      nullptr);
    caf::anon_send(worker, coordinator::run{which, 0}, what);
    EXPECT_EQ(asked->get_future().wait_for(patience),
              std::future_status::ready);
    caf::anon_send(worker, coordinator::cancel{which});
    EXPECT_EQ(stopped->get_future().wait_for(patience),
              std::future_status::ready);
    EXPECT_TRUE(was_inside);
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(router, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(to, caf::exit_reason::user_shutdown);
  }
  release_caf_logger();
}

TEST(ClosureWorker, DoesNotExecuteAClosureThatWasStoppedBeforeItsTurn) {
  runtime actors;
  const auto asked = std::make_shared<std::promise<void>>();
  const auto stopped = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<ended_list>();
  ended->expected = 2;
  std::atomic<int> executed = 0;
  {
    auto router = actors.system().spawn(waiting_router, [asked](open_reads& x) {
      if (x.open.size() == 1)
        asked->set_value();
      answer_two(x);
    });
    auto to = actors.system().spawn(listing_owner, ended, stopped);
    auto worker = actors.system().spawn(
      closure_worker, closure_worker_config{.owner = to, .router = router});
    const auto reader = std::make_shared<closure>(
      [](closure_environment& self) -> coordinator::payload {
        const closure_environment::read part{{0, 1}, {}};
        self.pull({&part, 1});
        return {};
      },
      nullptr);
    const auto other = std::make_shared<closure>(
      [&](closure_environment&) -> coordinator::payload {
        ++executed;
        return {};
      },
      nullptr);
    caf::anon_send(worker, coordinator::run{{0, 1}, 0}, reader);
    EXPECT_EQ(asked->get_future().wait_for(patience),
              std::future_status::ready);
    caf::anon_send(worker, coordinator::run{{1, 1}, 0}, other);
    caf::anon_send(worker, coordinator::cancel{{1, 1}});
    EXPECT_EQ(stopped->get_future().wait_for(patience),
              std::future_status::ready);
    caf::anon_send(worker, coordinator::run{{2, 1}, 0}, other);
    // The second read lets the router answer the first one.
    caf::anon_send(router, std::uint32_t{0}, part_pull{1, false, {}},
                   tensors{});
    await_end(*ended, worker, router, to);
  }
  release_caf_logger();
  EXPECT_EQ(executed, 1);
}

/// The worker makes changes that need only the elements. The shard makes those
/// that need the state of an optimizer, reads of rows, and those of tables.
TEST(ClosureWorker, MakesItsOwnChangesOfWhatItReads) {
  using enum parameter_server::part_change::kind;
  using pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  runtime actors;
  const auto value = tensor::of<float>({2}, {1, 2});
  const auto asked = std::make_shared<asked_reads>();
  const auto ended = std::make_shared<ended_list>();
  ended->expected = 1;
  std::vector<tensor> seen;
  std::string problem;
  {
    auto router = actors.system().spawn(listing_router, value, asked);
    auto to = actors.system().spawn(listing_owner, ended, notice{});
    auto worker = actors.system().spawn(
      closure_worker, closure_worker_config{.owner = to, .router = router});
    const auto what = std::make_shared<closure>(
      [&](closure_environment& self) -> coordinator::payload {
        const auto read = [&](const closure_environment::read& part) {
          seen.push_back(self.pull({&part, 1})[0]);
        };
        const auto one = tensor::of<std::int64_t>({1}, {1});
        self.change({0, 1}, {.what = add, .all = tensor::full({2}, 10)});
        self.change({0, 2}, {.what = assign, .all = tensor::full({2}, 7)});
        self.change({0, 1},
                    {.what = maximum,
                     .rows = sparse_rows{{2}, one, tensor::full({1}, 30)}});
        read({{0, 1}, {}});
        read({{0, 2}, {}});
        read({{0, 3}, {}});
        read({{0, 1}, one});
        read({{0, 1, true}, {}});
        self.change({0, 1}, {.what = gradient, .all = tensor::full({2}, 1)});
        read({{0, 1}, {}});
        self.change({0, 3}, {.what = add, .all = tensor::full({3}, 1)});
        try {
          read({{0, 3}, {}});
        } catch (const job_error& e) {
          problem = e.what();
        }
        return {};
      },
      nullptr);
    caf::anon_send(worker, coordinator::run{{0, 1}, 0}, what);
    await_end(*ended, worker, router, to);
  }
  release_caf_logger();
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_TRUE(same_bits(seen[0], tensor::of<float>({2}, {11, 30})));
  EXPECT_TRUE(same_bits(seen[1], tensor::full({2}, 7)));
  EXPECT_TRUE(same_bits(value, tensor::of<float>({2}, {1, 2})));
  const std::lock_guard hold{asked->lock};
  // The numbers of rows are an operand too.
  EXPECT_EQ(asked->all,
            (pairs{{0, 0}, {0, 0}, {0, 0}, {2, 4}, {2, 3}, {3, 4}, {0, 0}}));
  EXPECT_EQ(problem, "parameter server 0: assign_add: the variable is "
                     "float32[2], the value float32[3]");
}

} // namespace
} // namespace troupe

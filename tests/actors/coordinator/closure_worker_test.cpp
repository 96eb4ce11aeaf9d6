#include "troupe/actors/coordinator/closure_worker.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 60s;
using notice = std::shared_ptr<std::promise<void>>;

struct open_reads {
  std::vector<caf::typed_response_promise<tensor>> open;
};

/// A shard that keeps reads open. It calls `on_read` for each.
shard_actor::behavior_type
waiting_shard(shard_actor::stateful_pointer<open_reads> self,
              const std::function<void(open_reads&)>& on_read) {
  return {
    [](const new_part&, const tensor&) { return std::uint64_t{0}; },
    [](const shard_limits&) { return std::uint64_t{0}; },
    [](const new_optimizer&) { return std::uint64_t{0}; },
    [self, on_read](const part_pull&, const tensors&) {
      auto answer = self->make_response_promise<tensor>();
      self->state.open.push_back(answer);
      on_read(self->state);
      return answer;
    },
    [](const optimizer_pull&) { return tensor{}; },
    [](const change_list&, const tensors&) { return std::uint64_t{0}; },
    [](const execution_effects&, const tensors&) { return std::uint64_t{0}; },
    [](const coordinator::decision& x) {
      return coordinator::decided{0, x.execution.ordinal};
    },
    [](atom::info) { return part_table{}; },
    [](atom::status) { return shard_status{}; },
  };
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
  std::mutex lock; // guards `ordinals`
  std::vector<std::uint64_t> ordinals;
  std::promise<void> complete;
  std::size_t expected = 0;
};

closure_worker_owner_actor::behavior_type
listing_owner(closure_worker_owner_actor::pointer,
              const std::shared_ptr<ended_list>& to) {
  return {
    [to](std::uint64_t, const coordinator::ended& x,
         const coordinator::payload&) {
      const std::lock_guard hold{to->lock};
      to->ordinals.push_back(x.execution.ordinal);
      if (to->ordinals.size() == to->expected)
        to->complete.set_value();
    },
    [](std::uint64_t, const coordinator::failed&, const closure_failure&) {},
    [](std::uint64_t, const coordinator::stopped&) {},
  };
}

/// With two slots the worker asks for two closures before any is answered. One
/// that reads nothing ends only when a slot is free.
TEST(ClosureWorker, ExecutesAClosureWhileAnotherOneReads) {
  runtime actors;
  const auto ended = std::make_shared<ended_list>();
  ended->expected = 3;
  std::atomic<int> own_environment = 0;
  {
    auto shard = actors.system().spawn(waiting_shard, answer_two);
    auto to = actors.system().spawn(listing_owner, ended);
    auto worker = actors.system().spawn(
      closure_worker,
      closure_worker_config{.owner = to, .shards = {shard}, .interleaved = 2});
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
    EXPECT_EQ(ended->complete.get_future().wait_for(patience),
              std::future_status::ready);
    caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(to, caf::exit_reason::user_shutdown);
  }
  release_caf_logger();
  const std::lock_guard hold{ended->lock};
  ASSERT_EQ(ended->ordinals.size(), 3U);
  EXPECT_EQ(ended->ordinals.front(), 1U) << "its read was answered first";
  EXPECT_EQ(own_environment, 2);
}

/// Code that ends a closure that waits still belongs to the closure.
TEST(ClosureWorker, StopsAClosureThatWaitsInsideOfItsEnvironment) {
  runtime actors;
  const auto asked = std::make_shared<std::promise<void>>();
  const auto stopped = std::make_shared<std::promise<void>>();
  std::atomic<bool> was_inside = false;
  {
    auto shard = actors.system().spawn(
      waiting_shard, [asked](open_reads&) { asked->set_value(); });
    auto to = actors.system().spawn(owner, stopped);
    auto worker = actors.system().spawn(
      closure_worker, closure_worker_config{.owner = to, .shards = {shard}});
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
    caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(to, caf::exit_reason::user_shutdown);
  }
  release_caf_logger();
}

} // namespace
} // namespace troupe

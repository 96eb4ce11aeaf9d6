#include "troupe/actors/coordinator/closure_worker.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 60s;
using notice = std::shared_ptr<std::promise<void>>;

struct silent_state {
  std::vector<caf::typed_response_promise<tensor>> open;
};

/// A shard that does not answer reads. It tells when it is asked.
shard_actor::behavior_type
silent_shard(shard_actor::stateful_pointer<silent_state> self, notice asked) {
  return {
    [](const new_part&, const tensor&) { return std::uint64_t{0}; },
    [](const shard_limits&) { return std::uint64_t{0}; },
    [](const new_optimizer&) { return std::uint64_t{0}; },
    [self, asked](const part_pull&, const tensors&) {
      auto answer = self->make_response_promise<tensor>();
      self->state.open.push_back(answer);
      asked->set_value();
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

/// Code that ends a closure that waits still belongs to the closure.
TEST(ClosureWorker, StopsAClosureThatWaitsInsideOfItsEnvironment) {
  runtime actors;
  const auto asked = std::make_shared<std::promise<void>>();
  const auto stopped = std::make_shared<std::promise<void>>();
  std::atomic<bool> was_inside = false;
  {
    auto shard = actors.system().spawn(silent_shard, asked);
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

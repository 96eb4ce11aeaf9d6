#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr auto patience = 30s;

worker_reply failed(ec code, bool here, std::string text) {
  return {{.done = false,
           .failed_here = here,
           .code = code,
           .error_text = std::move(text)},
          {}};
}

const worker_reply done{{.done = true, .failed_here = false}, {}};

TEST(FindFailure, PrefersALostConnectionThenTheWorkersOwnFailure) {
  const auto hint = failed(ec::peer_lost, false, "a hint");
  const auto own = failed(ec::invalid, true, "its own");
  const auto lost = failed(ec::unreachable, true, "the connection");
  EXPECT_FALSE(find_failure({done, done}));
  EXPECT_EQ(find_failure({done, hint})->error_text, "a hint");
  EXPECT_EQ(find_failure({hint, done, own})->error_text, "its own");
  EXPECT_EQ(find_failure({hint, own, lost})->error_text, "the connection");
  EXPECT_EQ(find_failure({hint, own, lost})->worker, 2u);
}

/// Waits for `begin`, if it is valid, replies to `info`, and then sets `end`.
worker_actor::behavior_type
replying_worker(worker_actor::pointer self, const worker_status& status,
                const std::shared_future<void>& begin,
                const std::shared_ptr<std::promise<void>>& end) {
  return {
    [=](atom::info) {
      if (begin.valid()) {
        EXPECT_EQ(begin.wait_for(patience), std::future_status::ready);
      }
      auto promise = self->make_response_promise<worker_status>();
      promise.deliver(status);
      if (end)
        end->set_value();
      return promise;
    },
    [](atom::run, const std::string&, std::uint64_t,
       const std::vector<std::uint32_t>&,
       const tensors&) -> caf::result<worker_status, tensors> {
      return caf::sec::unexpected_message;
    },
    [](atom::stop) { return true; },
  };
}

/// The workers of a job may notice a loss before the client does, and then the
/// user's function may fail because of it.
TEST(WorkerClient, WaitsAfterAFailureForTheLossThatCausedIt) {
  runtime actors;
  auto& system = actors.system();
  const auto lost = failed(ec::unreachable, true, "no data was received");
  const auto own = failed(ec::invalid, true, "values of replica 1 are missing");
  const auto has_failed = std::make_shared<std::promise<void>>();
  const auto first = system.spawn(replying_worker, own.status,
                                  std::shared_future<void>{}, has_failed);
  const auto late = system.spawn<caf::detached>(
    replying_worker, lost.status, has_failed->get_future().share(), nullptr);
  const auto found =
    find_failure(join_all(system, {first, late}, patience, patience));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->worker, 1u);
  EXPECT_EQ(found->code, ec::unreachable);
}

TEST(WorkerClient, ReportsAFailureAlthoughAnotherWorkerNeverReplies) {
  runtime actors;
  auto& system = actors.system();
  const auto own = failed(ec::invalid, true, "the function failed");
  std::promise<void> go;
  const auto first = system.spawn(replying_worker, own.status,
                                  std::shared_future<void>{}, nullptr);
  const auto late = system.spawn<caf::detached>(
    replying_worker, done.status, go.get_future().share(), nullptr);
  const auto found =
    find_failure(join_all(system, {first, late}, patience, 1ms));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->worker, 0u);
  go.set_value(); // it replies, so that the runtime can end
}

} // namespace

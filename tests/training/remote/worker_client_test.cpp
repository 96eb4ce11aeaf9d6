#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

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

/// A worker that replies to `info` only when it has received `stop`, too.
worker_actor::behavior_type late_worker(worker_actor::pointer self,
                                        const worker_status& status) {
  struct state {
    std::optional<caf::typed_response_promise<worker_status>> promise;
    bool may_reply = false;
  };
  const auto at = std::make_shared<state>();
  return {
    [=](atom::info) {
      auto promise = self->make_response_promise<worker_status>();
      if (at->may_reply)
        promise.deliver(status);
      else
        at->promise = promise;
      return promise;
    },
    [](atom::run, const std::string&, std::uint64_t,
       const std::vector<std::uint32_t>&,
       const tensors&) -> caf::result<worker_status, tensors> {
      return caf::sec::unexpected_message;
    },
    [=](atom::stop) {
      at->may_reply = true;
      if (at->promise)
        at->promise->deliver(status);
      return true;
    },
  };
}

/// A worker that replies to `info` and then lets `other`, if there is one,
/// reply.
worker_actor::behavior_type first_worker(worker_actor::pointer self,
                                         const worker_status& status,
                                         const worker_actor& other) {
  return {
    [=](atom::info) {
      auto promise = self->make_response_promise<worker_status>();
      promise.deliver(status);
      if (other)
        self->anon_send(other, atom::stop_v);
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

TEST(WorkerClient, ReportsAFailureAlthoughAnotherWorkerNeverReplies) {
  runtime actors;
  auto& system = actors.system();
  const auto own = failed(ec::invalid, true, "the function failed");
  const auto late = system.spawn(late_worker, done.status);
  const auto first = system.spawn(first_worker, own.status, worker_actor{});
  const auto found = find_failure(join_all(system, {first, late}, 10s, 1ms));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->worker, 0u);
  caf::anon_send(late, atom::stop_v); // it replies, so that the runtime can end
}

} // namespace

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

using troupe::test::patience;

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

using replica_list = std::vector<std::uint32_t>;

/// What a worker replies. A request without a function is unexpected.
struct worker_functions {
  std::function<caf::result<worker_status>()> info{};
  std::function<caf::result<worker_status, tensors>(const replica_list&,
                                                    const tensors&)>
    run{};
  std::function<caf::result<bool>(std::uint64_t, const replica_list&,
                                  const tensors&)>
    inputs{};
  std::function<caf::result<worker_status>(std::uint64_t, std::uint64_t)>
    admit{};
  std::function<void()> on_stop{};
};

worker_actor::behavior_type behavior_of(const worker_functions& all) {
  return {
    [=](atom::info) -> caf::result<worker_status> {
      if (all.info)
        return all.info();
      return caf::sec::unexpected_message;
    },
    [=](atom::run, const std::string&, std::uint64_t,
        const replica_list& replicas, const replica_list&,
        const tensors& inputs) -> caf::result<worker_status, tensors> {
      if (all.run)
        return all.run(replicas, inputs);
      return caf::sec::unexpected_message;
    },
    [=](atom::inputs, std::uint64_t number, const replica_list& replicas,
        const replica_list& counts,
        const tensors& inputs) -> caf::result<bool> {
      EXPECT_EQ(counts, replica_list(replicas.size(), 1));
      if (all.inputs)
        return all.inputs(number, replicas, inputs);
      return caf::sec::unexpected_message;
    },
    [](atom::results, std::uint64_t,
       const replica_list&) -> caf::result<worker_status, tensors> {
      return caf::sec::unexpected_message;
    },
    [=](atom::admit, std::uint64_t number,
        std::uint64_t incarnation) -> caf::result<worker_status> {
      if (all.admit)
        return all.admit(number, incarnation);
      return caf::sec::unexpected_message;
    },
    [=](atom::stop) {
      if (all.on_stop)
        all.on_stop();
      return true;
    },
  };
}

/// Waits for `begin`, if it is valid, replies to `info`, and then sets `end`.
worker_actor::behavior_type
replying_worker(worker_actor::pointer self, const worker_status& status,
                const std::shared_future<void>& begin,
                const std::shared_ptr<std::promise<void>>& end) {
  return behavior_of({.info = [=]() -> caf::result<worker_status> {
    if (begin.valid()) {
      EXPECT_EQ(begin.wait_for(patience), std::future_status::ready);
    }
    auto promise = self->make_response_promise<worker_status>();
    promise.deliver(status);
    if (end)
      end->set_value();
    return promise;
  }});
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

/// Replies to `run` when it has the inputs of replica 1, with these inputs. The
/// worker that hosts replica 1 says at once that it does not belong to the job.
struct waiting_state {
  caf::typed_response_promise<worker_status, tensors> promise;
  tensors inputs;
  int refusals = 0;
  caf::typed_response_promise<worker_status> admission;
};

/// @param refusals number of messages with inputs that are refused, as by a
///        connection that accepts no message.
worker_actor::behavior_type
waiting_worker(worker_actor::stateful_pointer<waiting_state> self,
               int refusals) {
  self->state.refusals = refusals;
  const auto take = [self](const replica_list& replicas,
                           const tensors& inputs) {
    auto& state = self->state;
    for (const auto& one : inputs)
      state.inputs.push_back(one);
    if (replicas == replica_list{1})
      state.promise.deliver(done.status, state.inputs);
  };
  return behavior_of(
    {.run = [=](const replica_list& replicas,
                const tensors& inputs) -> caf::result<worker_status, tensors> {
       auto& promise = self->state.promise;
       promise = self->make_response_promise<worker_status, tensors>();
       if (replicas == replica_list{1})
         promise.deliver(
           failed(ec::unreachable, false, "it is excluded").status, tensors{});
       else
         take(replicas, inputs);
       return promise;
     },
     .inputs = [=](std::uint64_t number, const replica_list& replicas,
                   const tensors& inputs) -> caf::result<bool> {
       if (self->state.refusals-- > 0)
         return caf::make_error(ec::busy, std::string{"no more frames"});
       EXPECT_EQ(number, 4u);
       take(replicas, inputs);
       return true;
     }});
}

worker_request request_for_three(std::vector<std::uint32_t> of_worker_1) {
  worker_request out;
  out.function = "train";
  out.number = 4;
  for (const double x : {10, 11, 12})
    out.by_replica.push_back({tensor::full({}, x)});
  out.placement = {{0}, std::move(of_worker_1), {2}};
  return out;
}

void expect_inputs(const worker_reply& reply, float first) {
  EXPECT_TRUE(reply.status.done);
  ASSERT_EQ(reply.results.size(), 2u);
  EXPECT_EQ(reply.results[0].item<float>(), first);
  EXPECT_EQ(reply.results[1].item<float>(), 11);
}

TEST(WorkerClient, SendsTheInputsOfAWorkerThatIsLostInARequestToTheOthers) {
  runtime actors;
  worker_list workers;
  for (int i = 0; i < 3; ++i)
    workers.push_back(actors.system().spawn(waiting_worker, 0));
  const auto replies = run_all(actors.system(), workers, request_for_three({1}),
                               patience, patience);
  expect_inputs(replies[0], 10);
  EXPECT_FALSE(replies[1].status.done);
  expect_inputs(replies[2], 12);
}

TEST(WorkerClient, SendsInputsAgainThatAConnectionDoesNotAccept) {
  runtime actors;
  worker_list workers;
  for (const int refusals : {0, 0, 3})
    workers.push_back(actors.system().spawn(waiting_worker, refusals));
  const auto replies = run_all(actors.system(), workers, request_for_three({1}),
                               patience, patience);
  expect_inputs(replies[0], 10);
  expect_inputs(replies[2], 12);
}

TEST(WorkerClient, SendsTheInputsOfAWorkerThatWasLostBeforeToTheOthers) {
  runtime actors;
  worker_list workers{actors.system().spawn(waiting_worker, 0), worker_actor{},
                      actors.system().spawn(waiting_worker, 0)};
  const auto replies = run_all(actors.system(), workers, request_for_three({}),
                               patience, patience);
  expect_inputs(replies[0], 10);
  EXPECT_TRUE(is_lost(replies[1].status));
  expect_inputs(replies[2], 12);
}

/// Replies to `admit` with this status. None: when it gets `stop`.
worker_actor::behavior_type
admitting_worker(worker_actor::stateful_pointer<waiting_state> self,
                 const std::optional<worker_status>& status) {
  return behavior_of(
    {.admit = [=](std::uint64_t number,
                  std::uint64_t incarnation) -> caf::result<worker_status> {
       EXPECT_EQ(number, 7u);
       EXPECT_EQ(incarnation, 99u);
       if (status)
         return *status;
       self->state.admission = self->make_response_promise<worker_status>();
       return self->state.admission;
     },
     .on_stop =
       [=] {
         if (!status)
           self->state.admission.deliver(worker_status{});
       }});
}

/// The worker that is to join waits for a view that does not come.
TEST(WorkerClient, AJoinerThatNoMemberHasAdmittedIsNotWaitedFor) {
  runtime actors;
  const auto refusal = failed(ec::stalled, false, "it did not ask").status;
  worker_list workers;
  for (const auto& status :
       {std::optional{refusal}, std::optional<worker_status>{},
        std::optional{refusal}})
    workers.push_back(actors.system().spawn(admitting_worker, status));
  const auto begin = std::chrono::steady_clock::now();
  const auto replies = admit_on_all(actors.system(), workers, 1, 7, 99,
                                    std::chrono::hours{1}, patience);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, patience);
  EXPECT_FALSE(replies[1].status.done);
  EXPECT_EQ(replies[1].status.code, ec::stalled);
  EXPECT_EQ(replies[1].status.error_text, "it did not ask");
  leave_all(actors.system(), workers, patience); // so that the runtime can end
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

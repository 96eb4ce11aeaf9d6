#pragma once

#include "troupe/training/remote/request_inputs.hpp"
#include "troupe/training/remote/worker.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Requests of a client to its workers.

namespace troupe {

struct worker_reply {
  worker_status status;
  tensors results;
};

/// Names the worker that failed, and the reason.
struct worker_failure {
  std::size_t worker = 0;
  ec code = ec::invalid;
  std::string error_text;
};

/// A request that a client sends to all of its workers.
struct worker_request {
  std::string function;
  /// Number of the request. The client increments it.
  std::uint64_t number = 0;
  /// Inputs of every replica. Used if `by_replica` is empty.
  tensors common{};
  std::vector<tensors> by_replica{}; ///< Inputs by replica.
  /// Replicas that each worker hosts, by worker, as far as the client knows.
  std::vector<std::vector<std::uint32_t>> placement{};
};

/// The workers of a client, by number. A null handle: the worker is lost, and
/// gets no request.
using worker_list = std::vector<worker_actor>;

/// `join_all`, `run_all`, `admit_on_all` and `leave_all` each send a request to
/// all workers. Each waits until all workers have replied, a worker replies
/// that it failed itself, or the timeout expires. After a failure each waits at
/// most `after_failure` for the other replies. The loss of a worker often shows
/// first as a failure of another one.
/// @returns the replies by worker. A missing reply has a status that is not
///          `done`, and so has that of a worker without a handle.
///
/// The loss of a worker ends the wait of `join_all` only.
std::vector<worker_reply> join_all(caf::actor_system& system,
                                   const worker_list& workers,
                                   std::chrono::milliseconds timeout,
                                   std::chrono::milliseconds after_failure);
/// When a worker is lost, or does not belong to the job any more, sends the
/// inputs of its replicas to the others. Repeats this while their connections
/// accept no message.
std::vector<worker_reply> run_all(caf::actor_system& system,
                                  const worker_list& workers,
                                  const worker_request& task,
                                  std::chrono::milliseconds timeout,
                                  std::chrono::milliseconds after_failure);
/// @param joiner number of the worker that joins. It gets the reply of a member
///        if no member has admitted it: it may wait for a view that does not
///        come.
std::vector<worker_reply> admit_on_all(caf::actor_system& system,
                                       const worker_list& workers,
                                       std::size_t joiner, std::uint64_t number,
                                       std::uint64_t incarnation,
                                       std::chrono::milliseconds timeout,
                                       std::chrono::milliseconds after_failure);
void leave_all(caf::actor_system& system, const worker_list& workers,
               std::chrono::milliseconds timeout);

/// Asks one worker for results of replicas in the request with this number.
worker_reply results_of(caf::actor_system& system, const worker_actor& worker,
                        std::uint64_t number,
                        const std::vector<std::uint32_t>& replicas,
                        std::chrono::milliseconds timeout);

/// Finds out which workers are lost, by a message without effect to each.
/// @returns replies as `run_all`. Those of other workers are `done`.
std::vector<worker_reply> probe_all(caf::actor_system& system,
                                    const worker_list& workers,
                                    std::chrono::milliseconds timeout);

/// Says whether the connection to the worker was lost.
bool is_lost(const worker_status& status);

/// Says whether the worker itself failed, in another way than by its loss.
bool has_failed_itself(const worker_status& status);

/// Returns the first worker whose connection was lost, else the first that
/// failed itself, else the first that reports a failure of another worker.
/// None: all requests succeeded.
std::optional<worker_failure>
find_failure(const std::vector<worker_reply>& replies);

} // namespace troupe

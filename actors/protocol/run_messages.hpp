#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/strategies/membership/run_barrier.hpp"

#include <caf/typed_actor.hpp>

#include <chrono>
#include <vector>

// Messages between the chief and the run clients, within and between processes.

namespace troupe {

/// Maximum time for which a `step_done` or a commit waits in its process until
/// it is sent to another process in a batch.
constexpr std::chrono::milliseconds max_batch_delay{20};

/// Maximum time for which a `configured` or a `wait_report` waits in its
/// process until it is sent to another process in a batch.
constexpr std::chrono::milliseconds max_answer_delay{2};

/// Maximum number of elements of a batch. An element has at most
/// `element_bytes` bytes, so a batch has at most 512 KiB, half of the maximum
/// of a control frame.
constexpr std::size_t max_batch_elements = 8192;
constexpr std::size_t element_bytes = 64;

/// Notifies a run client of committed steps.
struct commit_batch {
  std::uint64_t run = 0; ///< Number of the run, counted by its callers.
  std::vector<commit_record> records; ///< Committed steps, in order.
  auto fields() { return std::tie(run, records); }
};

/// Notifies a run client that a run is complete.
struct run_completed {
  std::uint64_t run = 0;       ///< Number of the run, counted by its callers.
  std::uint64_t next_step = 0; ///< First step that was not run.
  auto fields() { return std::tie(run, next_step); }
};

/// Notifies a run client that a run was aborted or rejected.
struct run_aborted {
  std::uint64_t run = 0; ///< Number of the run, counted by its callers.
  failure_report report; ///< Why the run was aborted or rejected.
  auto fields() { return std::tie(run, report); }
};

/// Tells the chief that the caller of the run in a process has received the
/// commits of all steps below `next_step`.
struct commit_ack {
  std::uint32_t process = 0;   ///< Number of the acknowledging process.
  std::uint64_t run = 0;       ///< Number of the run, counted by its callers.
  std::uint64_t next_step = 0; ///< First step whose commit is not acknowledged.
  auto fields() { return std::tie(process, run, next_step); }
};

/// The receiver of the chief's notifications in a process without the chief:
/// its local agent.
using run_client_actor =
  caf::typed_actor<caf::reacts_to<commit_batch>, caf::reacts_to<run_completed>,
                   caf::reacts_to<run_aborted>>;

/// A batch of messages that a local agent forwards from its replicas to the
/// chief. The chief handles the fields in the order of declaration.
struct owner_batch {
  std::vector<step_commit::configured> configured;
  std::vector<step_commit::step_done> steps_done;
  std::vector<step_commit::wait_report> wait_reports;
  auto fields() { return std::tie(configured, steps_done, wait_reports); }
};

/// Splits a batch into batches that each fit into a frame. Keeps the order of
/// the elements.
std::vector<owner_batch> split(const owner_batch& batch);

/// The messages that other processes send to the chief.
using chief_remote_actor = replica_owner_actor::extend<
  // A local agent forwards messages from its replicas.
  caf::reacts_to<owner_batch>,
  // The replica group of a process joins a run.
  caf::reacts_to<run_barrier::join>,
  // The caller of the run in a process acknowledges commits.
  caf::reacts_to<commit_ack>,
  // Requests that the chief grants no more steps of a run.
  caf::reacts_to<run_barrier::stop>,
  // Returns the status of the job, as far as the chief knows it:
  // `job_overview` adds the processes and decisions.
  caf::replies_to<atom::status>::with<job_status>>;

/// The messages that a replica group sends to the chief or the local agent of
/// its process.
using run_service_actor = caf::typed_actor<
  // The replica group joins a run with its step function.
  caf::reacts_to<run_barrier::join, step_function_ref>,
  // The caller of the run acknowledges commits.
  caf::reacts_to<commit_ack>,
  // Requests that the chief grants no more steps of a run.
  caf::reacts_to<run_barrier::stop>,
  // Asks the chief for the status of the job.
  caf::replies_to<atom::status>::with<job_status>>;

} // namespace troupe

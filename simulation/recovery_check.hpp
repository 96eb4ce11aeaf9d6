#pragma once

#include "troupe/simulation/recovery_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

// Runs a training under a random plan of faults, and checks what must hold in
// every job:
//
//   - A process that completes its program has the weights, the histories and
//     the evaluations of an undisturbed job, to the last bit.
//   - Each process is told of each step at most once without `repeated`, in
//     order, with the content of the undisturbed job.
//   - The chiefs are told of all steps, in order. A process is told of a step
//     again only if it has become the chief, and if no member of its view knows
//     that the chief before it has processed the step.
//   - The file that the job saves never goes back to an earlier position. After
//     the last step it has the model after that step.
//   - All calls of an excluded process throw, and it changes no file of the
//   job.
//   - Each view has one content in all processes, and at most one chief.
//   - No process gives up the job if it can go on at the same time.
//   - No membership actor ends with an error.
//   - The job ends within the longest timeout of its processes, the time that
//     its faults and its own code take, and that of its messages.
//   - If more than half of the processes remain, or all others are known to be
//     dead, or a launcher decides, then the job is completed. A process that
//     was stopped for at least 600 ms at once need not remain.

namespace troupe::simulation {

/// Result of a simulated job.
struct recovery_result {
  std::string plan; ///< The plan as one line.
  /// What does not hold. Empty: everything does.
  std::string failure;
  std::size_t fired = 0;          ///< Faults that have occurred.
  std::size_t faulty_packets = 0; ///< Packets that were lost or corrupt.
  /// Their kinds, such as "lost result".
  std::set<std::string> packet_kinds;
  /// Distinct pairs of the state of a process and a fault that it had there.
  std::set<std::string> reached;
  std::size_t completed = 0; ///< Processes that have completed the training.
  std::set<std::uint32_t> completed_tasks; ///< Tasks of these processes.
  std::size_t joined = 0;         ///< Processes among them that have joined.
  std::size_t left = 0;           ///< Processes that have left.
  std::size_t launcher_kills = 0; ///< Processes that the launcher has ended.
  /// How often the launcher has said which processes live.
  std::size_t survivors_named = 0;
  std::size_t view_changes = 0;
  std::size_t repeated = 0;  ///< Callbacks of steps that were repeated.
  std::size_t delivered = 0; ///< Delivered messages.
  double seconds = 0;        ///< Time of the virtual clock.
};

/// Runs a job under the plan that the seed chooses.
recovery_result check_recovery(std::uint64_t seed);

/// Runs a job under a given plan. The seed chooses the order of the messages.
recovery_result check_recovery(std::uint64_t seed, const recovery_plan& plan);

} // namespace troupe::simulation

#pragma once

#include "troupe/simulation/recovery_program.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The faults of the processes of a simulated job, as a seed chooses them.

namespace troupe::simulation {

/// A fault of a process, and when it occurs.
struct process_fault {
  enum class kind : std::uint8_t {
    kill,      ///< The process ends. Its connections end, too.
    power_off, ///< The process ends, and is silent from then on.
    stop,      ///< The process is stopped, and goes on after a time.
    partition, ///< The process reaches no other one any more.
    /// The process and `peer` no longer reach the others, and those still reach
    /// one another.
    split,
    cut,   ///< The connections between two processes end.
    leave, ///< The process is asked to leave its job. Fits only.
    /// No process can connect to that of the task any more, nor open lanes to
    /// it. Connections that stand are not affected.
    block,
  };
  enum class moment : std::uint8_t {
    step,         ///< The first process has committed `count` steps.
    view_message, ///< `count` messages about view changes were sent.
    /// The program of the process runs code of its own for the `count`th time:
    /// before, between or after its calls, or in a callback.
    user_code,
    delivery,  ///< `count` messages were delivered since the start of the job.
    with_last, ///< Together with the fault before it in the plan.
  };

  kind type = kind::kill;
  std::uint32_t task = 0;
  std::uint32_t peer = 0; ///< `split` and `cut`: the other process.
  moment when = moment::step;
  std::uint64_t count = 0;
  /// Number of messages between any roles after that moment.
  std::uint64_t messages = 0;
  /// `stop`: when the process goes on. `kill` and `power_off`: when it is
  /// started again. None: never.
  std::optional<std::chrono::milliseconds> until{};
};

/// The form of a job, and its faults.
struct recovery_plan {
  std::uint32_t processes = 2;
  job_program program = job_program::fits;
  /// Maximum time that a program spends in code of its own, each time. Zero: it
  /// takes no time.
  std::chrono::milliseconds user_code_time{0};
  /// Batches that fits read ahead, as in `fit_options`.
  std::size_t prefetch = 0;
  bool on_one_host = true;   ///< As in `elastic_job_options`.
  bool has_launcher = false; ///< As in `elastic_job_options`.
  bool reconnects = false;   ///< As in `elastic_job_options`.
  /// Minimum time that a message takes, and maximum additional time. With a
  /// slow network, a process can join before the job has ended.
  std::chrono::microseconds latency{50};
  double delayed = 0;    ///< Probability that a message is delayed.
  double duplicated = 0; ///< Probability that a message arrives twice.
  /// Numbers of packets of the job, counted from 0, that are lost.
  std::vector<std::uint64_t> lost_packets{};
  /// Numbers of packets of the job of which a bit changes on the way.
  std::vector<std::uint64_t> corrupt_packets{};
  std::vector<process_fault> faults{};
};

/// Draws a plan for a job of 2 to 4 processes, with one to three faults.
recovery_plan random_recovery_plan(std::uint64_t seed);

/// Returns the plan as one line.
std::string to_string(const recovery_plan& plan);
std::string to_string(const process_fault& fault);

/// Returns "kill", "power off" and so on.
const char* name_of(process_fault::kind kind);
/// Returns "fits" and so on.
const char* name_of(job_program program);

} // namespace troupe::simulation

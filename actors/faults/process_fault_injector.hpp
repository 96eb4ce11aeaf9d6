#pragma once

#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/actors/faults/fault_notes.hpp"
#include "troupe/actors/faults/fault_plan.hpp"
#include "troupe/actors/faults/process_faults.hpp"
#include "troupe/net/cluster/cluster_task.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace troupe::injection {

/// Injects the faults of a plan into one process of a job. It logs a line
/// "fault: ..." for each fault that occurs, the first time; faults with a
/// trigger occur once. Any thread may send.
///
/// Steps have the numbers that they have for the user (`step_numbers`). A step
/// has begun in a process when one of its replicas first sends a message or a
/// packet of it. With parameter servers, `on_step` and `on_answer` take
/// the place of messages. A thread of the injector watches the times of faults
/// of the whole process; other faults of a time occur at the next message.
class process_fault_injector final : public fault_injector {
public:
  using clock = std::chrono::steady_clock;

  /// @param plan    can run over processes (`problem_of`).
  /// @param process number of this process.
  /// @param notes  faults that have occurred before do not occur again.
  process_fault_injector(const faults& plan, std::uint32_t process,
                         fault_notes notes, process_faults functions);
  ~process_fault_injector() override;
  process_fault_injector(const process_fault_injector&) = delete;
  process_fault_injector& operator=(const process_fault_injector&) = delete;

  injected_fault on_send(const role_id& sender, const role_id& receiver,
                         message_kind kind, std::uint64_t generation,
                         std::uint64_t step) override;
  injected_fault on_packet(const role_id& sender, const role_id& receiver,
                           message_kind kind, std::uint64_t generation,
                           std::uint64_t step) override;

  /// A worker of parameter servers begins a step of a training. This is no
  /// message.
  void on_step(std::uint64_t step);
  /// A parameter server answers a request, which has taken place. This is a
  /// message of no step.
  void on_answer();

private:
  struct event;
  struct planned_fault {
    fault what;
    std::size_t index = 0; ///< In the plan.
    bool is_done = false;
    bool is_noted = false;
    /// A `slow` that has begun: last step in which it has waited. None: it has
    /// not begun.
    std::optional<std::uint64_t> slow_step{};
    std::uint64_t slow_steps = 0; ///< Steps in which it has waited.
  };
  bool concerns_this_process(const fault& one) const;
  injected_fault on_event(const event& of);
  bool is_due(const fault& one, const event& of) const;
  void apply_to_message(planned_fault& one, const event& of,
                        injected_fault& out);
  std::chrono::nanoseconds slow_time(planned_fault& one, const event& of);
  void note(planned_fault& one);
  void inflict(const fault& one) const;
  void watch_times();

  const std::uint32_t process_;
  const fault_notes notes_;
  const process_faults functions_;
  const clock::time_point begin_ = clock::now();

  std::mutex lock_; // guards all members below
  std::vector<planned_fault> planned_;
  std::uint64_t messages_ = 0, packets_ = 0; ///< Sent so far.
  std::mt19937_64 rng_;
  std::condition_variable ending_;
  bool is_ending_ = false;
  std::thread watch_; ///< Not joinable if the plan has no times.
};

/// Where a process finds the plan of its job.
struct plan_location {
  /// Environment variable with the file of the plan.
  static constexpr const char* variable = "TROUPE_FAULTS";

  /// File of the plan. Empty: the file that the environment names.
  std::filesystem::path file{};
};

/// Makes the injector of this process from the plan of its job, in which all
/// processes have replicas.
/// @param addresses addresses of the processes, by task.
/// @param replicas  number of replicas of the job.
/// @returns null if there is no plan.
/// @errors throws as `load_fault_plan`.
std::shared_ptr<fault_injector>
make_process_fault_injector(const plan_location& location,
                            const std::vector<net::address>& addresses,
                            std::uint32_t own_task, std::uint32_t replicas);

/// Makes the injector of this process from the plan of its job, in which it is
/// the chief, a worker or a parameter server.
/// @returns null if there is no plan, or the task is another one.
/// @errors throws as `load_fault_plan`.
std::shared_ptr<process_fault_injector>
make_process_fault_injector(const plan_location& location,
                            const net::cluster_spec& cluster,
                            const net::cluster_task& task);

} // namespace troupe::injection

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace troupe {

/// Identifies a role of a job by its kind and number.
struct role_id {
  enum class kind : std::uint8_t {
    chief,
    replica,
    reducer,
    /// The local agent of a process other than the chief's. Its id is the
    /// number of that process in the job.
    local_agent,
  };
  kind role = kind::chief;
  std::uint32_t id = 0; ///< Number of the role within its kind.

  friend bool operator==(const role_id&, const role_id&) = default;
};

/// Returns the `role_id` of the replica with this number.
inline role_id replica_id(std::uint32_t id) {
  return {role_id::kind::replica, id};
}

/// Returns "chief", "replica 2", "reducer 0" or "local agent 1".
std::string to_string(const role_id& role);

/// Kind of a message between roles. In a process without the chief, the local
/// agent receives the messages to the chief and forwards them.
enum class message_kind : std::uint8_t {
  contribution,        ///< Replica to reducer: contribution to a sum.
  result,              ///< Reducer to replica: sum of one slice.
  gather_contribution, ///< Replica to replica: contribution to a gather.
  configure,           ///< Chief to replica: begins a generation.
  start_steps,         ///< Chief to replica: starts the steps of a run.
  grant,               ///< Chief to replica: permits more steps.
  probe,               ///< Chief to replica or reducer: asks for a wait report.
  configured,          ///< Replica to chief: acknowledges `configure`.
  step_done,           ///< Replica to chief: reports a completed step.
  failed,              ///< Replica or reducer to chief: reports a failed step.
  wait_report,         ///< Replica or reducer to chief: answers a probe.
  join,                ///< Local agent to chief: joins a run.
  /// Between chief and local agent: any other message about a run, such as a
  /// commit or its acknowledgement.
  notification,
};

/// The numbers that the steps of the active run have for the user, who writes
/// the plan of faults. Any thread may use it.
class step_numbers {
public:
  /// @param first     number of the run's first step in the group.
  /// @param end       number after that of the run's last step.
  /// @param user_step number that the first step has for the user. None: the
  ///                  user does not count the steps of the run.
  void begin_run(std::uint64_t first, std::uint64_t end,
                 std::optional<std::uint64_t> user_step);

  /// Returns the number that a step has for the user. Before the first run, it
  /// is the number in the group.
  /// @returns none if the user does not count the step, or it belongs to
  ///          another run.
  std::optional<std::uint64_t> user_step_of(std::uint64_t step) const;

private:
  mutable std::mutex lock_; // guards all members below
  bool has_run_ = false;
  std::uint64_t first_ = 0, end_ = 0;
  std::optional<std::uint64_t> user_step_;
};

/// Decides which messages between roles are lost, duplicated, delayed or
/// corrupted. These include messages within a process. Sending threads call it
/// concurrently.
class fault_injector {
public:
  fault_injector() = default;
  virtual ~fault_injector() = default;

  /// Numbers of the steps of the run that the processes make.
  const std::shared_ptr<step_numbers>& steps() const { return steps_; }

  /// The faults of one message.
  struct injected_fault {
    bool dropped = false;
    /// True: the message is delivered twice.
    bool duplicated = false;
    /// Delay of the message. If it is duplicated, only one copy is delayed.
    std::chrono::nanoseconds delay{0};
    /// True: the header of a packet between processes is changed. No effect on
    /// other messages.
    bool corrupted = false;

    friend bool operator==(const injected_fault&,
                           const injected_fault&) = default;
  };
  /// Decides which faults one message has.
  /// @param generation generation that the message belongs to.
  /// @param step       number of the step that the message belongs to.
  virtual injected_fault on_send(const role_id& sender, const role_id& receiver,
                                 message_kind kind, std::uint64_t generation,
                                 std::uint64_t step) = 0;

  /// Decides which faults one packet between processes has. To an injector that
  /// does not override this function, a packet is a message.
  /// @param sender   lowest replica of the sending process.
  /// @param receiver lowest replica of the receiving process.
  virtual injected_fault on_packet(const role_id& sender,
                                   const role_id& receiver, message_kind kind,
                                   std::uint64_t generation,
                                   std::uint64_t step) {
    return on_send(sender, receiver, kind, generation, step);
  }

protected:
  /// Shares the numbers of the steps with the injector that decides for this
  /// one.
  explicit fault_injector(std::shared_ptr<step_numbers> steps)
    : steps_{std::move(steps)} {}

private:
  std::shared_ptr<step_numbers> steps_ = std::make_shared<step_numbers>();
};

} // namespace troupe

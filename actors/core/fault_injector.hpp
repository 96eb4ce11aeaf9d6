#pragma once

#include <chrono>
#include <cstdint>
#include <string>

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

/// Decides which messages between roles are lost, duplicated, delayed or
/// corrupted. These include messages within a process. Sending threads call it
/// concurrently.
class fault_injector {
public:
  virtual ~fault_injector() = default;

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
};

} // namespace troupe

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// Address of a role of a job, as messages between roles state it.
struct role_id {
  enum class kind : std::uint8_t {
    chief,
    replica,
    reducer,
    /// The local agent of a process without the chief. Its id is the number of
    /// the process in the job.
    local_agent,
  };
  kind role = kind::chief;
  std::uint32_t id = 0; ///< Number among the roles of this kind, from 0.

  friend bool operator==(const role_id&, const role_id&) = default;
};

/// Makes the address of a replica.
inline role_id replica_id(std::uint32_t id) {
  return {role_id::kind::replica, id};
}

/// @returns "chief", "replica 2", "reducer 0" or "local agent 1".
std::string to_string(const role_id& role);

/// Kind of a message between roles.
enum class message_kind : std::uint8_t {
  contribution,        ///< Contribution to a sum, from a replica to a reducer.
  result,              ///< Reduced slice, from a reducer to a replica.
  gather_contribution, ///< Contribution to a gather, from a replica to a
                       ///< replica.
  configure,   ///< Configuration of a generation, from the chief to a replica.
  start_steps, ///< Start of the steps of a run, from the chief to a replica.
  grant,       ///< Permission for more steps, from the chief to a replica.
  probe,       ///< Request for a wait report, from the chief to a role.
  configured,  ///< Acknowledgement of a configuration, from a replica to the
               ///< chief.
  step_done,   ///< Completed step, from a replica to the chief.
  failed,      ///< Failed step, from a replica or a reducer to the chief.
  wait_report, ///< Answer to a probe, from a replica or a reducer to the chief.
  join,        ///< Request of a local agent to the chief.
  notification, ///< Notification of the chief to a local agent.
};

/// Decides which messages between roles are lost, duplicated, delayed or
/// corrupted, also within a process. The threads of the senders call it
/// concurrently.
class fault_injector {
public:
  virtual ~fault_injector() = default;

  /// The fault of one message.
  struct injected_fault {
    bool dropped = false;
    /// The message is delivered twice. The second copy is not delayed.
    bool duplicated = false;
    std::chrono::nanoseconds delay{0}; ///< Delay of the first copy.
    /// The header of a packet between processes is changed. No effect on other
    /// messages.
    bool corrupted = false;
  };
  /// Decides on the fault of one message.
  /// @param generation number of the attempt to run steps that the message
  ///                   belongs to.
  /// @param step       number of the step that the message belongs to.
  virtual injected_fault on_send(const role_id& sender, const role_id& receiver,
                                 message_kind kind, std::uint64_t generation,
                                 std::uint64_t step) = 0;
};

} // namespace troupe

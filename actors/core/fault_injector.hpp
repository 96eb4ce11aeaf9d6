#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// Address of a role of a job, as messages between roles state it.
struct party {
  enum class role : std::uint8_t {
    chief,
    replica,
    reducer,
    /// The local agent of a process without the chief. Its id is the number of
    /// the process in the job.
    steward,
  };
  role what = role::chief;
  std::uint32_t id = 0; ///< Number among the roles of this kind, from 0.

  friend bool operator==(const party&, const party&) = default;
};

/// Makes the address of a replica.
inline party replica_named(std::uint32_t id) {
  return {party::role::replica, id};
}

/// @returns "chief", "replica 2", "reducer 0" or "local agent 1".
std::string to_string(const party& x);

/// Kind of a message between roles.
enum class subject : std::uint8_t {
  part,   ///< Contribution to a sum, from a replica to a reducer.
  sum,    ///< Reduced slice, from a reducer to a replica.
  share,  ///< Contribution to a gather, from a replica to a replica.
  seat,   ///< Configuration of a generation, from the chief to a replica.
  order,  ///< Start of the steps of a run, from the chief to a replica.
  grant,  ///< Permission for more steps, from the chief to a replica.
  probe,  ///< Question what a role waits for, from the chief to a role.
  seated, ///< Acknowledgement of a configuration, from a replica to the chief.
  report, ///< Completed step, from a replica to the chief.
  failed, ///< Failed step, from a replica or a reducer to the chief.
  blame,  ///< Answer to a probe, from a replica or a reducer to the chief.
  join,   ///< Request of a local agent to the chief.
  news,   ///< Notification of the chief to a local agent.
};

/// Decides which messages between roles are lost, duplicated, delayed or
/// corrupted, also within a process. The threads of the senders call it
/// concurrently.
class fault_seam {
public:
  virtual ~fault_seam() = default;

  /// The fault of one message.
  struct fate {
    bool dropped = false;
    /// The message is delivered twice. The second copy is not delayed.
    bool twice = false;
    std::chrono::nanoseconds delay{0}; ///< Delay of the first copy.
    /// The header of a packet between processes is changed. No effect on other
    /// messages.
    bool corrupted = false;
  };
  /// Decides on the fault of one message.
  /// @param generation number of the attempt to run steps that the message
  ///                   belongs to.
  /// @param step       number of the step that the message belongs to.
  virtual fate decide(const party& from, const party& to, subject what,
                      std::uint64_t epoch, std::uint64_t step) = 0;
};

} // namespace troupe

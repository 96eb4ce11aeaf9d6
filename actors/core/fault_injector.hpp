#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// A role of a job, as its messages name it.
struct party {
  enum class role : std::uint8_t {
    chief,
    replica,
    reducer,
    steward, ///< Of a process that the chief is not in; its id is the task's.
  };
  role what = role::chief;
  std::uint32_t id = 0;

  friend bool operator==(const party&, const party&) = default;
};

inline party replica_named(std::uint32_t id) {
  return {party::role::replica, id};
}

/// "chief", "replica 2", "reducer 0", "steward 1".
std::string to_string(const party& x);

/// What a message between roles is about.
enum class subject : std::uint8_t {
  part,  ///< Of a sum: replica to adder.
  sum,   ///< Adder to replica.
  share, ///< Of a gather: replica to replica.
  seat,  ///< From here on: chief to replica ...
  order,
  grant,
  probe,
  seated, ///< ... and replica (or reducer) to chief.
  report,
  failed,
  blame,
  join, ///< Steward to chief ...
  news, ///< ... and back.
};

/// Where faults enter: every message between roles passes here, also inside a
/// process. Called on the threads of the speakers, several at once.
class fault_seam {
public:
  virtual ~fault_seam() = default;

  struct fate {
    bool dropped = false;
    bool twice = false;                ///< The second copy comes undelayed.
    std::chrono::nanoseconds delay{0}; ///< Of the first copy.
    /// Of a parcel between processes: what it says of itself arrives changed.
    bool corrupted = false;
  };
  /// @param step the one that the message belongs to.
  virtual fate decide(const party& from, const party& to, subject what,
                      std::uint64_t epoch, std::uint64_t step) = 0;
};

} // namespace troupe

#pragma once

#include "troupe/apps/troupe/launcher/child_processes.hpp"
#include "troupe/net/base/descriptor.hpp"

#include <cstdint>
#include <sys/types.h>

/// A running child process and the descriptors that report its end and its
/// output.
struct child_process {
  pid_t id = 0;
  std::uint64_t start_time = 0;  ///< As in `net::process_identity`.
  troupe::net::descriptor pidfd; ///< Readable once the process has ended.
  troupe::net::descriptor out, err;
  troupe::net::descriptor link; ///< Link to the child's `launcher_link`.
};

/// Starts a program as a child process.
/// @param is_witness the launcher is a witness, as `launcher_link` says.
/// @errors throws std::invalid_argument if there is no such program,
///         std::runtime_error if it cannot be started.
child_process spawn_child(const process_spec& spec, bool is_witness);

/// Kills process groups when this process has ended, also by SIGKILL. Then the
/// kernel kills the children of this process, but not the processes that they
/// have started. A process in a session of its own, which is no child of this
/// one, waits for that.
class group_guard {
public:
  /// @errors throws std::runtime_error if the process cannot be started.
  group_guard();

  void add(pid_t group) { tell(group); }
  /// Call it while the id of the group cannot be that of another one.
  void remove(pid_t group) { tell(-group); }

private:
  void tell(pid_t word) const;

  troupe::net::descriptor pipe_; ///< Its end is that of this process.
};

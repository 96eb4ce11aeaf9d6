#pragma once

#include "child_processes.hpp"
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
  troupe::net::descriptor link; ///< To the child's `launcher_link`.
};

/// Starts a program as a child process.
/// @param is_witness the launcher is a witness, as `launcher_link` says.
/// @errors throws std::invalid_argument if there is no such program,
///         std::runtime_error if it cannot be started.
child_process spawn_child(const process_spec& spec, bool is_witness);

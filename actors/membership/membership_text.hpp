#pragma once

#include "troupe/strategies/membership/messages.hpp"

#include <string>
#include <vector>

// Sentences about admission and about starts that fail.

namespace troupe {

/// The names that a sentence about a job needs.
struct membership_names {
  std::string job;
  std::vector<std::string> names;     ///< Display names, by task.
  std::vector<std::string> addresses; ///< By task.
  std::uint32_t task = 0;             ///< Task of this process.
};

/// Says why the leader rejects a process: "worker 1 has version 2.0, but chief
/// 0 1.0".
std::string describe(const membership::rejection& why,
                     const membership_names& job);

/// Says why the job cannot begin.
/// @param waited   start timeout as text, such as "300 ms".
/// @param rejected_text text about rejected processes and connections; may be
/// empty.
std::string describe(const membership::failure& why,
                     const membership_names& job, const std::string& waited,
                     const std::string& rejected_text);

/// "worker 1 and worker 3 did not join (10.0.0.1:1, 10.0.0.3:1)".
std::string describe_missing(const std::vector<std::uint32_t>& tasks,
                             const membership_names& job);

} // namespace troupe

#pragma once

#include "troupe/actors/core/job_error.hpp"

#include <chrono>

// How the chief of a run with parameter servers connects to its nodes.

/// Name of the chief in the logs of the nodes.
inline constexpr auto chief_client_name = "chief";

/// Time between attempts to connect to nodes.
inline constexpr std::chrono::milliseconds attempt_interval{20};

/// Returns true if a later attempt to connect to the node may succeed.
inline bool may_come(const troupe::job_error& error) {
  return error.code == troupe::ec::peer_lost
         || error.code == troupe::ec::unreachable;
}

#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/shard_messages.hpp"

#include <caf/typed_actor.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// What `troupe status` shows of the parameter servers of a job.

namespace troupe {

/// A parameter server. It is one shard, which can have copies.
struct server_summary {
  /// Address of the process that serves it. Empty: it is not known, for example
  /// because the server is a thread.
  std::string address;
  std::uint32_t in_sync = 0; ///< Copies that can serve, this one included.
  std::uint8_t responds = 0; ///< 0 or 1. Zero: `held` is not known.
  shard_status held;
  auto fields() { return std::tie(address, in_sync, responds, held); }
};

/// The parameter servers of a job.
struct servers_summary {
  std::uint32_t copies = 1; ///< Copies of each server, if all are in sync.
  std::uint64_t lost_servers = 0;      ///< Processes with copies, so far.
  std::vector<server_summary> servers; ///< By number.
  auto fields() { return std::tie(copies, lost_servers, servers); }
};

/// Returns the summary for people: several lines, each with a line break.
std::string to_text(const servers_summary& x);

/// Answers queries of the parameter servers of a job. The node of the chief
/// spawns this role under the name `server_status_role`.
using server_status_actor =
  caf::typed_actor<caf::replies_to<atom::status>::with<servers_summary>>;

inline constexpr auto server_status_role = "parameter_server_status";

} // namespace troupe

#pragma once

#include "troupe/actors/protocol/atoms.hpp"

#include <caf/typed_actor.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// The requests that a node serves, and its responses.

namespace troupe {

/// Fingerprint of a role in one program. A node spawns a role only if the node
/// and the requesting client have the same fingerprint of the role.
struct role_fingerprint {
  std::uint32_t messages = 0;  ///< CRC-32C of the message schemas.
  std::uint32_t arguments = 0; ///< CRC-32C of the spawn arguments' schema.
  auto fields() { return std::tie(messages, arguments); }
  friend bool operator==(const role_fingerprint&,
                         const role_fingerprint&) = default;
};

/// A request to spawn a role.
struct spawn_request {
  std::string role; ///< Registered name of the role.
  /// Fingerprint of the role in the requesting program.
  role_fingerprint fingerprint;
  std::vector<std::uint8_t> arguments; ///< Encoded arguments, concatenated.
  auto fields() { return std::tie(role, fingerprint, arguments); }
};

/// Description of a node.
struct node_info {
  std::string name; ///< Name of the process.
  /// Random number that identifies one life of the process.
  std::uint64_t incarnation = 0;
  std::string version;                ///< Version of the library.
  std::vector<std::string> roles{};   ///< Names of the registered roles.
  std::vector<std::string> running{}; ///< Role name of each running actor.
  std::vector<std::string> devices{}; ///< Devices, such as "cpu:0".
  std::uint32_t clients = 0;          ///< Number of client connections.
  std::uint64_t uptime_ms = 0;        ///< Milliseconds since the start.
  /// Load of the machine: mean number of runnable tasks over one minute.
  double load = 0;
  auto fields() {
    return std::tie(name, incarnation, version, roles, running, devices,
                    clients, uptime_ms, load);
  }
};

// -- protocol -----------------------------------------------------------------

/// Channel that carries the messages of `node_actor`. In a connection with the
/// purpose "status", it carries the messages of `status_actor`, and with the
/// purpose "vacancies" those of `vacancy_actor`.
inline constexpr std::uint32_t root_channel = 1;

/// A node, which spawns roles by name. It serves the `root_channel` of each
/// connection with the purpose "node".
using node_actor = caf::typed_actor<
  // Spawns a role. The response is the number of the channel of this connection
  // that carries the messages of the role. When the connection closes, the role
  // ends.
  // Error codes:
  //   refused   no role of this name is registered, or it could not be created
  //   invalid   client and node have different fingerprints of the role
  //   busy      the connection has the maximum number of roles
  caf::replies_to<atom::spawn, spawn_request>::with<std::uint32_t>,
  // Returns the description of the node.
  caf::replies_to<atom::info>::with<node_info>,
  // Ends all roles and stops the node.
  caf::reacts_to<atom::stop>>;

/// Returns the names separated by commas, or "none" if there are none.
std::string name_list(const std::vector<std::string>& names);

/// Returns the description for people: several lines, each with a line break.
std::string to_text(const node_info& info);

} // namespace troupe

#pragma once

#include "troupe/actors/protocol/atoms.hpp"

#include <caf/typed_actor.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

// What a node is asked, and answers.

namespace troupe {

/// What two programs must agree on before one spawns a role in the other.
struct role_form {
  std::uint32_t messages = 0;  ///< CRC-32C of the interface's text.
  std::uint32_t arguments = 0; ///< Likewise, of the arguments' types.
  auto fields() { return std::tie(messages, arguments); }
  friend bool operator==(const role_form&, const role_form&) = default;
};

struct spawn_order {
  std::string role; ///< Its registered name.
  role_form form;
  std::vector<std::uint8_t> arguments; ///< Encoded, one after the other.
  auto fields() { return std::tie(role, form, arguments); }
};

struct node_info {
  std::string name; ///< Of the process.
  std::uint64_t incarnation = 0;
  std::string version;                ///< Of the library.
  std::vector<std::string> roles{};   ///< That may be spawned.
  std::vector<std::string> running{}; ///< That were, one name for each.
  std::vector<std::string> devices{}; ///< "cpu:0".
  std::uint32_t guests = 0;           ///< Connections.
  std::uint64_t uptime_ms = 0;
  double load = 0; ///< Of the machine: what waits to run, over a minute.
  auto fields() {
    return std::tie(name, incarnation, version, roles, running, devices, guests,
                    uptime_ms, load);
  }
};

// -- protocol -----------------------------------------------------------------

/// Of a connection: what its purpose is about.
inline constexpr std::uint32_t desk_channel = 1;

/// NODE: spawns roles by name. It is on the `desk_channel` of every connection
/// to it with the purpose "node".
using node_actor = caf::typed_actor<
  // The channel of that connection on which the role now is; it is the
  // connection's: when that ends, so does the role. The error is
  //   refused   there is no role of this name, or nothing was made
  //   invalid   it is spoken to or spawned otherwise: two versions of a program
  //   busy      too many roles
  caf::replies_to<atom::spawn, spawn_order>::with<std::uint32_t>,
  caf::replies_to<atom::who>::with<node_info>,
  // Ends all roles, and serves no more.
  caf::reacts_to<atom::stop>>;

/// "a, b", or "none".
std::string listed(const std::vector<std::string>& names);

/// For people, several lines; the last has a line break.
std::string to_text(const node_info& x);

} // namespace troupe

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace troupe::net {

/// Identifies its sender at the start of a connection. A receiver that requires
/// a secret reads the hello after the sender has authenticated. The acceptor
/// decides by the dialer's hello whether it accepts the connection.
struct hello {
  std::string job;  ///< Name of the job; both sides send the same name.
  std::string name; ///< Name of the process, such as "worker 1" or "client".
  /// Random number that the process draws when it starts.
  std::uint64_t incarnation = 0;
  /// Service that the dialer requests, such as "control" or "contributions".
  std::string purpose;
  /// Data for the acceptor, which the service defines.
  std::vector<std::byte> payload;

  auto fields() { return std::tie(job, name, incarnation, purpose, payload); }
  friend bool operator==(const hello&, const hello&) = default;
};

/// True if a connection of this purpose carries frames. A connection of another
/// purpose carries packets or messages of its own format.
constexpr bool carries_frames(std::string_view purpose) {
  return purpose == "control" || purpose == "peer" || purpose == "reconnect"
         || purpose == "join" || purpose == "node" || purpose == "status"
         || purpose == "spare" || purpose == "vacancies";
}

/// The acceptor's answer to a hello: accepted, with data for the dialer, or
/// rejected with a reason.
struct hello_response {
  bool accepted = true;
  std::string reason{}; ///< Reason of a rejection, which both sides report.
  std::vector<std::byte> payload{};
  hello responder{}; ///< Hello of the acceptor.

  auto fields() { return std::tie(accepted, reason, payload, responder); }
};

} // namespace troupe::net

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace troupe::net {

/// Identifies the sender at the start of a connection. It is read after the
/// peer has authenticated. The acceptor compares it with what it expects.
struct hello {
  std::string job;  ///< Name of the job; equal on both sides.
  std::string name; ///< Name of the process: "worker 1", "client".
  /// Random number of this life of the process; a restart draws another.
  std::uint64_t incarnation = 0;
  std::string
    purpose; ///< Service: "control", "node", "contributions", "results", ...
  std::vector<std::byte> payload; ///< Data for the acceptor; bounded.

  auto fields() { return std::tie(job, name, incarnation, purpose, payload); }
  friend bool operator==(const hello&, const hello&) = default;
};

/// True if a connection of this purpose carries frames. Other connections are
/// handed over as streams.
constexpr bool carries_frames(std::string_view purpose) {
  return purpose == "control" || purpose == "node" || purpose == "status";
}

/// Answers a hello: accepted, with data for the dialer, or rejected with a
/// reason that both sides see.
struct hello_response {
  bool accepted = true;
  std::string reason{}; ///< Reason of a rejection.
  std::vector<std::byte> payload{};
  hello responder{}; ///< The acceptor's own hello.

  auto fields() { return std::tie(accepted, reason, payload, responder); }
};

template <class Archive>
void serialize(Archive& archive, hello& x) {
  archive(x.job, x.name, x.incarnation, x.purpose, x.payload);
}

template <class Archive>
void serialize(Archive& archive, hello_response& x) {
  archive(x.accepted, x.reason, x.payload, x.responder);
}

} // namespace troupe::net

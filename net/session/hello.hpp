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
  std::string purpose; ///< Service: "control", "node", "parts", "sums", ...
  std::vector<std::byte> note; ///< Data for the acceptor; bounded.

  auto fields() { return std::tie(job, name, incarnation, purpose, note); }
  friend bool operator==(const hello&, const hello&) = default;
};

/// True if a connection of this purpose carries frames. Other connections are
/// handed over as streams.
constexpr bool speaks_frames(std::string_view purpose) {
  return purpose == "control" || purpose == "node" || purpose == "status";
}

/// Answers a hello: accepted, with data for the dialer, or rejected with a
/// reason that both sides see.
struct verdict {
  bool taken = true;
  std::string why{}; ///< Reason of a rejection.
  std::vector<std::byte> note{};
  hello who{}; ///< The acceptor's own hello.

  auto fields() { return std::tie(taken, why, note, who); }
};

template <class Archive>
void serialize(Archive& to, hello& x) {
  to(x.job, x.name, x.incarnation, x.purpose, x.note);
}

template <class Archive>
void serialize(Archive& to, verdict& x) {
  to(x.taken, x.why, x.note, x.who);
}

} // namespace troupe::net

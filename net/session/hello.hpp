#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace troupe::net {

/// What one process tells another before anything else. Whoever accepts
/// compares it with what he expects; authentication comes before it.
struct hello {
  std::string job;               ///< Both sides must name the same.
  std::string name;              ///< Of the process: "worker 1", "client".
  std::uint64_t incarnation = 0; ///< Random, of the process.
  std::string purpose;           ///< "control", "node", "parts", "sums", ...
  std::vector<std::byte> note;   ///< For whoever accepts; bounded.

  auto fields() { return std::tie(job, name, incarnation, purpose, note); }
  friend bool operator==(const hello&, const hello&) = default;
};

/// Whether a connection of this purpose carries frames; others are handed over
/// as streams.
constexpr bool speaks_frames(std::string_view purpose) {
  return purpose == "control" || purpose == "node" || purpose == "status";
}

/// What answers a hello: taken, with a note back, or refused with a sentence
/// that both sides get to see.
struct verdict {
  bool taken = true;
  std::string why{}; ///< Of a refusal.
  std::vector<std::byte> note{};
  hello who{}; ///< What the dialer is told of this process.

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

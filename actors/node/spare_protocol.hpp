#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The protocol by which a node announces itself to a client as a spare:
//
//   who       a node that was told the address of a client, and that client
//   start     the node dials the client with the purpose `spare`. The payload
//             of its hello is a `spare_description`
//   on hello  the client rejects it with a sentence, or keeps the connection.
//             With the payload `try_again` the reason may pass
//   wait      the heartbeats of the connection show that both live. No message
//   end       the client sends a `spare_outcome` as a oneway frame on channel 1
//             and closes the connection
//   cost      one connection for each spare, and one message
//   order     a client uses its spares in the order of their arrival
//   faults    if the connection ends without an outcome, the client forgets the
//             spare, and the node dials again after a delay. A client that
//             cannot use a spare for a reason that may pass closes it so

namespace troupe {

/// Purpose of the connection.
inline constexpr const char* spare_purpose = "spare";

/// Channel of the connection on which the client sends the outcome.
inline constexpr std::uint32_t spare_channel = 1;

/// What a node tells a client about itself.
struct spare_description {
  std::string address; ///< Address that other processes connect to.
  std::vector<std::string> roles{}; ///< Names of the registered roles.
  auto fields() { return std::tie(address, roles); }
};

/// What has become of a spare.
enum class spare_end : std::uint8_t {
  // The numbers are a wire format: append new ones, never reuse old ones.
  used = 1,     ///< The node belongs to the client's job now.
  refused = 2,  ///< The node does not fit.
  released = 3, ///< The client has ended.
};

struct spare_outcome {
  spare_end end = spare_end::used;
  std::string text{}; ///< Sentence that says what has happened.
  auto fields() { return std::tie(end, text); }
};

/// Returns why no client can use a spare with this description. Empty: it can
/// be used.
std::string fault_of(const spare_description& spare);

/// Decodes a message. None, and the fault is set: the bytes are malformed.
std::optional<spare_description>
decode_description(std::span<const std::byte> bytes, std::string& fault);
std::optional<spare_outcome> decode_outcome(std::span<const std::byte> bytes,
                                            std::string& fault);

/// Payload of a rejection whose reason may pass.
const std::vector<std::byte>& try_again();

} // namespace troupe

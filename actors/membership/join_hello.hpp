#pragma once

#include "troupe/net/codec/decode_error.hpp"
#include "troupe/net/session/hello.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <optional>
#include <string>

namespace troupe {

/// Makes the hello of a process of a job, which carries its join request.
/// @param name    display name of the process.
/// @param purpose service of the acceptor, such as "control".
net::hello make_join_hello(const std::string& job, const std::string& name,
                           const std::string& purpose,
                           membership::join_request request);

/// Reads the join request in the hello of a process.
/// @returns why the hello is malformed. None: it was read.
std::optional<net::decode_error>
read_join_hello(const net::hello& hello, membership::join_request& request);

} // namespace troupe

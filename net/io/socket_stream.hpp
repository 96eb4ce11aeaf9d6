#pragma once

#include "troupe/net/io/stream.hpp"

#include <memory>

namespace troupe::net {

/// A stream in the clear over a connected TCP or Unix socket, which it owns and
/// makes non-blocking; TCP sends small pieces at once.
/// @errors throws std::system_error; the socket is closed then.
std::unique_ptr<stream> wrap_socket(int descriptor);

/// Non-blocking, closed on exec; TCP_NODELAY and SO_KEEPALIVE where the socket
/// knows them.
/// @errors throws std::system_error.
void prepare_socket(int descriptor);

} // namespace troupe::net

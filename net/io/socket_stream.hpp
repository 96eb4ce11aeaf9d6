#pragma once

#include "troupe/net/io/stream.hpp"

#include <memory>

namespace troupe::net {

/// Creates an unencrypted stream over a connected TCP or Unix socket. The
/// stream owns the socket and makes it non-blocking; TCP sends small writes at
/// once.
/// @errors throws std::system_error; the socket is closed then.
std::unique_ptr<stream> wrap_socket(int descriptor);

/// Makes a socket non-blocking and closed on exec. Sets TCP_NODELAY and
/// SO_KEEPALIVE if the socket supports them.
/// @errors throws std::system_error.
void prepare_socket(int descriptor);

} // namespace troupe::net

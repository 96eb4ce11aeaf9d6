#pragma once

#include "troupe/net/io/stream.hpp"

#include <memory>

namespace troupe::net {

/// Creates an unencrypted stream over a connected TCP or Unix socket. The
/// stream owns the socket, and the socket is prepared as by `prepare_socket`.
/// @errors throws std::system_error after it has closed the socket.
std::unique_ptr<stream> wrap_socket(int descriptor);

/// Makes a socket non-blocking and closed on exec. Sets TCP_NODELAY and
/// SO_KEEPALIVE if the socket supports them.
/// @errors throws std::system_error.
void prepare_socket(int descriptor);

} // namespace troupe::net

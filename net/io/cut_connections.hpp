#pragma once

#include "troupe/net/io/socket_address.hpp"

#include <cstddef>
#include <functional>

namespace troupe::net {

/// Ends connected Internet sockets of this process as a network does that
/// fails: nothing more is read or written, and both sides see the end. For
/// tests of faults.
/// @param is_chosen decides by the two addresses of a socket.
/// @returns the number of sockets that were ended.
/// @cost a look at each open descriptor. A descriptor that another thread
///       closes and opens again meanwhile can be taken for the one before.
std::size_t cut_connections(
  const std::function<bool(const socket_address& own,
                           const socket_address& peer)>& is_chosen);

} // namespace troupe::net

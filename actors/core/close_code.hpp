#pragma once

#include "troupe/net/base/close_reason.hpp"
#include "troupe/strategies/error_code.hpp"

namespace troupe {

/// Returns the error code for the end of a channel, connection or lane.
constexpr ec close_code(net::close_reason reason) {
  switch (reason) {
    case net::close_reason::closed:
      return ec::peer_lost;
    case net::close_reason::timed_out:
    case net::close_reason::corrupted: // the peer may be alive
      return ec::unreachable;
    case net::close_reason::protocol_error:
      break;
  }
  return ec::protocol;
}

} // namespace troupe

#pragma once

#include "troupe/net/session/endpoint.hpp"

#include <memory>

namespace troupe {

/// Keeps the result of a dial until an actor has handled it. If the actor has
/// ended before that, the connection is closed, because the endpoint would keep
/// it open.
std::shared_ptr<net::endpoint::dial_result>
keep_dial_result(net::endpoint::dial_result&& result);

/// Returns the connection that a dial has made. Null: it has made none.
std::shared_ptr<net::connection>*
connection_of(net::endpoint::dial_result& result);

} // namespace troupe

#pragma once

#include <string>

namespace troupe::parameter_server {

/// Effect of a state machine: the sender of the last message has broken the
/// protocol.
struct protocol_error {
  std::string reason; ///< Text for people.
};

} // namespace troupe::parameter_server

#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::net {

/// Importance of a log message.
enum class severity : std::uint8_t {
  info,    ///< Normal operation, such as a rejected connection.
  warning, ///< The operator may have to react.
};

/// Receives log messages about connections, one sentence each. Called from any
/// thread.
using log_function = std::function<void(severity, const std::string&)>;

} // namespace troupe::net

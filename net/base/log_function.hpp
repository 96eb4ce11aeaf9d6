#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::net {

/// Importance of a log message.
enum class severity : std::uint8_t {
  info,    ///< Events of normal operation, such as a rejected connection.
  warning, ///< Faults to which the operator may have to react.
};

/// Receives log messages about connections. Each message is one sentence. Any
/// thread may call the function.
using log_function = std::function<void(severity, const std::string&)>;

} // namespace troupe::net

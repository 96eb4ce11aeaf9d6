#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::net {

/// How much a sentence matters to whoever watches a process.
enum class severity : std::uint8_t {
  info,    ///< As it goes: a stranger was sent away.
  warning, ///< Somebody may have to do something about it.
};

/// Hears, in sentences, what becomes of connections. Called from any thread.
using log_function = std::function<void(severity, const std::string&)>;

} // namespace troupe::net

#pragma once

#include "troupe/net/base/log_function.hpp"

#include <functional>
#include <string>
#include <string_view>

// The log of the library, with one sink.

namespace troupe {

enum class log_level { debug, info, warning, error, off };

/// Receives one line without a line end. Called from any thread, one call at a
/// time.
using log_sink = std::function<void(log_level, std::string_view)>;

/// Replaces the sink. Null: standard error, each line with time and level.
void log_to(log_sink sink);

/// Drops lines below `level`. The default is `log_level::warning`.
void log_from(log_level level);

/// True if lines of that level are logged. A caller may check this before it
/// formats a line.
bool logs(log_level level) noexcept;

/// Logs one line. Exceptions of the sink are ignored.
void log(log_level level, std::string_view line) noexcept;

/// Logs a line about connections; it is a `net::log_function`.
void log_of_connections(net::severity severity,
                        const std::string& line) noexcept;

} // namespace troupe

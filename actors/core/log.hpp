#pragma once

#include "troupe/net/base/log_function.hpp"

#include <functional>
#include <string>
#include <string_view>

// The log of the library. All lines go to one sink.

namespace troupe {

enum class log_level { debug, info, warning, error, off };

/// Receives one line without a line end. Any thread may call the sink, but only
/// one call runs at a time.
using log_sink = std::function<void(log_level, std::string_view)>;

/// Replaces the sink. Null: a sink that prints to standard error, with time and
/// level in each line.
void log_to(log_sink sink);

/// Drops lines below `level`. The default is `log_level::warning`.
void log_from(log_level level);

/// Returns true if lines of that level are logged. A caller may check this
/// before it formats a line.
bool logs(log_level level) noexcept;

/// Logs one line. Exceptions of the sink are ignored.
void log(log_level level, std::string_view line) noexcept;

/// Logs a line about connections. This function can serve as
/// `net::log_function`.
void log_of_connections(net::severity severity,
                        const std::string& line) noexcept;

} // namespace troupe

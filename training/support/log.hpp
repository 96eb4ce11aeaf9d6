#pragma once

#include "troupe/net/base/log_function.hpp"

#include <functional>
#include <string>
#include <string_view>

// What the library says to people who watch it run: one sink for all of it.

namespace troupe {

enum class log_level { debug, info, warning, error, off };

/// Takes one line, without its end. Called from any thread, one call at a time.
using log_sink = std::function<void(log_level, std::string_view)>;

/// Replaces where log lines go; null: back to standard error, each with a time
/// and its level.
void log_to(log_sink sink);

/// Lines below `least` are dropped before they are put together; the default is
/// `log_level::warning`.
void log_from(log_level least);

/// Whether a line of that level would be kept.
bool logs(log_level level) noexcept;

/// Says one line. A sink that throws is not heard of.
void log(log_level level, std::string_view line) noexcept;

/// Says what becomes of connections: a `net::log_function`.
void log_of_connections(net::severity how, const std::string& line) noexcept;

} // namespace troupe

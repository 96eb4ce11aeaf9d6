#include "troupe/actors/core/log.hpp"

#include <atomic>
#include <mutex>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace troupe {

namespace {

spdlog::level::level_enum to_spdlog(log_level level) {
  switch (level) {
    case log_level::debug:
      return spdlog::level::debug;
    case log_level::info:
      return spdlog::level::info;
    case log_level::warning:
      return spdlog::level::warn;
    case log_level::error:
      return spdlog::level::err;
    case log_level::off:
      break;
  }
  return spdlog::level::off;
}

/// Returns a sink with its own logger, so that the program's use of spdlog is
/// unaffected.
log_sink standard_error() {
  auto out = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  out->set_pattern("%H:%M:%S troupe %l: %v");
  auto logger = std::make_shared<spdlog::logger>("troupe", std::move(out));
  logger->set_level(spdlog::level::debug);
  return [logger](log_level level, std::string_view line) {
    logger->log(to_spdlog(level),
                spdlog::string_view_t{line.data(), line.size()});
  };
}

std::atomic<log_level> threshold{log_level::warning};

struct sink_slot {
  std::mutex lock;
  log_sink sink = standard_error();
};

/// Returns the object that holds the sink and its lock. The object is never
/// destroyed, because threads may log while the program exits.
sink_slot& slot() {
  static auto& one = *new sink_slot;
  return one;
}

} // namespace

void log_to(log_sink sink) {
  auto next = sink ? std::move(sink) : standard_error();
  const std::lock_guard hold{slot().lock};
  slot().sink = std::move(next);
}

void log_from(log_level level) {
  threshold = level;
}

bool logs(log_level level) noexcept {
  return level != log_level::off && level >= threshold;
}

void log(log_level level, std::string_view line) noexcept try {
  if (!logs(level))
    return;
  const std::lock_guard hold{slot().lock};
  slot().sink(level, line);
} catch (...) {
  // A failure to log does not end the program.
}

void log_of_connections(net::severity severity,
                        const std::string& line) noexcept {
  log(severity == net::severity::warning ? log_level::warning : log_level::info,
      line);
}

} // namespace troupe

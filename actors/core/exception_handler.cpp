#include "troupe/actors/core/exception_handler.hpp"

#include "troupe/actors/core/log.hpp"

#include <chrono>
#include <mutex>
#include <optional>

namespace troupe::detail {

void log_exception_of_oneway(const char* actor_name, const std::string& text) {
  using clock = std::chrono::steady_clock;
  static std::mutex lock;
  static std::optional<clock::time_point> next_warning;
  {
    const std::lock_guard hold{lock};
    const auto now = clock::now();
    if (next_warning && now < *next_warning)
      return;
    next_warning = now + std::chrono::seconds{10};
  }
  log(log_level::warning, "the role " + std::string{actor_name}
                            + " threw an exception in the handler of a "
                              "message without a response: "
                            + text);
}

} // namespace troupe::detail

#include "troupe/actors/runtime/config.hpp"

#include "troupe/actors/core/error_code_caf.hpp"

#include <algorithm>
#include <thread>

namespace troupe {

config::config() {
  const std::size_t cores = std::thread::hardware_concurrency();
  put("scheduler.policy", caf::atom("sharing")); // "stealing" polls when idle
  put("scheduler.max-threads", std::max(cores, std::size_t{2}));
  put("scheduler.max-throughput", std::size_t{50}); // messages per turn
  add_error_category(caf::atom("troupe"), [](std::uint8_t x, caf::atom_value,
                                             const caf::message& m) {
    return to_string(static_cast<ec>(x)) + (m.empty() ? "" : to_string(m));
  });
}

} // namespace troupe

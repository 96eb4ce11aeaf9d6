#include "troupe/actors/core/spawn.hpp"

#include <caf/logger.hpp>

namespace troupe {

void release_caf_logger() {
  caf::logger::set_current_actor_system(nullptr);
}

} // namespace troupe

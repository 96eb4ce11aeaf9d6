#include "troupe/actors/core/version.hpp"

namespace troupe {

const char* const version = TROUPE_VERSION;

} // namespace troupe

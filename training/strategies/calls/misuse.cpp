#include "troupe/training/strategies/calls/misuse.hpp"

#include <stdexcept>

namespace troupe {

void throw_misuse(const std::string& what, const std::string& why) {
  throw std::logic_error(what + " was called " + why);
}

} // namespace troupe

#include "troupe/actors/protocol/closure_owner.hpp"

#include "troupe/actors/protocol/closure.hpp"

namespace troupe {

std::string_view servers_of_closure() {
  const auto* const owner =
    dynamic_cast<const closure_owner*>(current_closure());
  return owner ? owner->servers() : std::string_view{};
}

} // namespace troupe

#include "troupe/training/strategies/calls/copy_audit.hpp"

#include <vector>

namespace troupe {

namespace {

copy_check check_of_owner = nullptr;

} // namespace

bool set_copy_check(copy_check check) {
  check_of_owner = check;
  return true;
}

void audit_copies(const strategy_state& state) {
  const bool is_candidate = state.lacks_state && state.group->is_joining();
  if (state.runs % audit_runs != 0 || !state.has_copies() || state.has_client
      || is_candidate || !check_of_owner)
    return;
  for (const auto& one : std::vector{state.observers})
    if (const auto owner = one.lock())
      check_of_owner(*owner);
}

} // namespace troupe

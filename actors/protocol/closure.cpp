#include "troupe/actors/protocol/closure.hpp"

#include <utility>

namespace troupe {

namespace {

thread_local closure_environment* running = nullptr;

} // namespace

closure_environment* current_closure() {
  return running;
}

closure_scope::closure_scope(closure_environment& x)
  : before_{std::exchange(running, &x)} {}

closure_scope::~closure_scope() {
  running = before_;
}

} // namespace troupe

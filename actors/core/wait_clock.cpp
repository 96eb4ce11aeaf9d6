#include "troupe/actors/core/wait_clock.hpp"

#include <utility>

namespace troupe {

namespace {

/// Null: the time is that of std::chrono::steady_clock.
thread_local const wait_clock::source* replaced = nullptr;

} // namespace

wait_clock::time_point wait_clock::now() {
  return replaced ? replaced->now() : std::chrono::steady_clock::now();
}

wait_clock::replacement::replacement(const source& time)
  : previous_{std::exchange(replaced, &time)} {}

wait_clock::replacement::~replacement() {
  replaced = previous_;
}

} // namespace troupe

#pragma once

#include "troupe/tests/support/timeouts.hpp"

#include <chrono>
#include <thread>

namespace troupe::test {

/// Waits until a condition holds, at most for `limit`, and returns whether it
/// does. For what nothing reports, such as a count in another process: it calls
/// `condition` each 200 us, and leaves the processor to others meanwhile.
template <class Condition>
bool becomes_true(Condition condition,
                  std::chrono::steady_clock::duration limit = patience) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end)
      return condition();
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  return true;
}

} // namespace troupe::test

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>

namespace troupe::test {

/// Numbers that threads add, and that others wait for.
class seen_numbers {
public:
  void add(std::uint64_t x) {
    const std::lock_guard hold{lock_};
    all_.insert(x);
    changed_.notify_all();
  }
  /// Waits until `x` was added, and returns all numbers.
  std::set<std::uint64_t> wait_for(std::uint64_t x) {
    std::unique_lock hold{lock_};
    EXPECT_TRUE(changed_.wait_for(hold, std::chrono::minutes{1},
                                  [&] { return all_.contains(x); }));
    return all_;
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::set<std::uint64_t> all_;
};

} // namespace troupe::test

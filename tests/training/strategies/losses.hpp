#pragma once

#include "clusters.hpp"
#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

// Workers that are lost.

namespace troupe::test {

/// What the process of a worker knows of its job.
inline peer_table& peers_of(const strategy& on) {
  return *on.state()->cluster->implementation().peers();
}

/// Closes the control connections of a worker to all others, as if its process
/// had ended.
inline void cut_off(const strategy& on) {
  auto& peers = peers_of(on);
  std::vector<std::shared_ptr<net::connection>> connections;
  {
    const std::lock_guard hold{peers.lock};
    for (const auto& one : peers.entries)
      if (one.connection)
        connections.push_back(one.connection);
  }
  for (const auto& one : connections)
    one->close("the test cuts it");
}

/// The numbers of the steps for which a worker's callback was called.
using step_list = std::vector<std::uint64_t>;

inline step_list steps_to(std::uint64_t end) {
  step_list out;
  for (std::uint64_t s = 0; s < end; ++s)
    out.push_back(s);
  return out;
}

/// Counts calls of callbacks, so that the chief can wait for those of the
/// others.
class call_counter {
public:
  void count() {
    const std::lock_guard hold{lock_};
    ++calls_;
    changed_.notify_all();
  }

  /// Waits until `count` was called as often as given, at most 30 s.
  void wait_for(int calls) {
    std::unique_lock hold{lock_};
    EXPECT_TRUE(changed_.wait_for(hold, std::chrono::seconds{30},
                                  [&] { return calls_ >= calls; }));
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  int calls_ = 0;
};

/// From step 5 on, the sums that worker 2 computes do not reach worker 1. So in
/// the first such step worker 0 makes its update, but worker 1 does not. Then
/// worker 2 is cut off.
class one_step_apart final : public fault_injector {
public:
  injected_fault on_send(const role_id& sender, const role_id& receiver,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    if (sender == replica_id(0) && step == dropped_step + 1
        && kind == message_kind::contribution)
      std::call_once(once_, [this] {
        ahead = true;
        cut_off(*victim);
      });
    if (kind != message_kind::result || sender != replica_id(2)
        || receiver != replica_id(1) || step < 5)
      return {};
    auto none = ~std::uint64_t{1};
    dropped_step.compare_exchange_strong(none, step);
    return {.dropped = true};
  }

  std::atomic<const strategy*> victim = nullptr;
  std::atomic<bool> ahead = false; ///< Worker 0 has begun the next step.
  std::atomic<std::uint64_t> dropped_step = ~std::uint64_t{1}; ///< None yet.

private:
  std::once_flag once_;
};

} // namespace troupe::test

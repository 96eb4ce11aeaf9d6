#pragma once

#include "troupe/strategies/collective/packet.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace troupe {

/// Numbers of the packets that this process and another one have sent to each
/// other in one view. With them a process notices that the last packets of a
/// lane were lost: no later packet shows that. All functions may be called by
/// any thread.
class packet_counts {
public:
  using counts = std::array<std::uint64_t, collective::lane_ids.size()>;

  /// Notes how many packets of a lane have left this process.
  void set_sent(collective::lane_id lane, std::uint64_t count) {
    sent_[std::size_t(lane)].store(count, std::memory_order_relaxed);
  }
  counts sent() const { return read(sent_); }

  /// Notes what the other process has told: how many packets it had sent some
  /// time ago.
  void set_told(const counts& sent_by_peer) {
    for (std::size_t i = 0; i < told_.size(); ++i)
      told_[i].store(sent_by_peer[i], std::memory_order_relaxed);
    times_told_.fetch_add(1, std::memory_order_release);
    const std::lock_guard hold{lock_};
    if (listener_)
      listener_();
  }
  /// How often the other process has told its numbers.
  std::uint64_t times_told() const {
    return times_told_.load(std::memory_order_acquire);
  }
  /// The last number that it has told.
  std::uint64_t told(collective::lane_id lane) const {
    return told_[std::size_t(lane)].load(std::memory_order_relaxed);
  }
  /// Sets a function that `set_told` calls, where waiting replicas do not look
  /// by themselves. It must not call this object.
  void set_listener(std::function<void()> listener) {
    const std::lock_guard hold{lock_};
    listener_ = std::move(listener);
  }

private:
  using atomic_counts =
    std::array<std::atomic<std::uint64_t>, collective::lane_ids.size()>;
  static counts read(const atomic_counts& from) {
    counts out{};
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = from[i].load(std::memory_order_relaxed);
    return out;
  }

  atomic_counts sent_{}, told_{};
  std::atomic<std::uint64_t> times_told_ = 0;
  std::mutex lock_; // guards the listener
  std::function<void()> listener_;
};

} // namespace troupe

#pragma once

#include "troupe/strategies/collective/packet.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <tuple>
#include <utility>

namespace troupe {

/// How many packets a process has sent to another one in a view, by lane.
struct packet_report {
  std::uint64_t view_id = 0;
  std::uint64_t contributions = 0, results = 0;
  auto fields() { return std::tie(view_id, contributions, results); }
  friend bool operator==(const packet_report&, const packet_report&) = default;
};

/// The numbers of packets that this process and another one have sent to each
/// other in one view. With them a process notices that the last packets of a
/// lane were lost: no later packet shows that. All functions may be called by
/// any thread.
class packet_counts {
public:
  /// Notes how many packets of a lane have left this process.
  void set_sent(collective::lane_id lane, std::uint64_t count) {
    sent_[std::size_t(lane)].store(count, std::memory_order_relaxed);
  }
  packet_report sent(std::uint64_t view_id) const {
    return {view_id, read(sent_, collective::lane_id::contributions),
            read(sent_, collective::lane_id::results)};
  }

  /// Notes what the other process has reported: how many packets it had sent
  /// some time ago.
  void set_reported(const packet_report& by_peer) {
    store(collective::lane_id::contributions, by_peer.contributions);
    store(collective::lane_id::results, by_peer.results);
    const std::lock_guard hold{lock_};
    if (listener_)
      listener_();
  }
  std::uint64_t reported(collective::lane_id lane) const {
    return read(reported_, lane);
  }
  /// Sets a function that `set_reported` calls, where waiting replicas do not
  /// look by themselves. It must not call this object.
  void set_listener(std::function<void()> listener) {
    const std::lock_guard hold{lock_};
    listener_ = std::move(listener);
  }

private:
  using atomic_counts =
    std::array<std::atomic<std::uint64_t>, collective::lane_ids.size()>;
  static std::uint64_t read(const atomic_counts& counts,
                            collective::lane_id lane) {
    return counts[std::size_t(lane)].load(std::memory_order_relaxed);
  }
  void store(collective::lane_id lane, std::uint64_t count) {
    reported_[std::size_t(lane)].store(count, std::memory_order_relaxed);
  }

  atomic_counts sent_{}, reported_{};
  std::mutex lock_; // guards the listener
  std::function<void()> listener_;
};

} // namespace troupe

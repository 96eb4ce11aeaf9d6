#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/net/shm/shm_arena.hpp"
#include "troupe/net/shm/shm_segment.hpp"

#include <memory>
#include <optional>

namespace troupe::net {

/// Shared memory and notifiers of the lanes that two processes of one host have
/// opened together.
struct shm_context {
  shm_segment own_segment;
  shm_view peer_segment;
  std::shared_ptr<event_notifier> own_notifier;
  descriptor peer_notifier;
  /// Arena of this process. Null: there is none, or the peer has not mapped it.
  std::shared_ptr<const shm_arena> own_arena{};
  std::optional<shm_arena_view> peer_arena{};
};

/// A lane through shared memory. The receiver reads packets in place, without a
/// checksum. A payload in the sender's arena that is posted zero-copy is not
/// copied at all.
/// @cost per packet, the payload and two cache lines of its slot are
///       transferred. One line has the header, the other one the size and
///       offset of the payload. The only system call is to wake a peer that
///       waits.
class shm_lane final : public lane {
public:
  /// @param queue number of the lane, which is the index of its queue in both
  ///              segments.
  /// @param liveness_stream connection to the peer that carries no data. When
  ///                        it ends, the peer has ended.
  /// @errors throws std::out_of_range if the segments have no such queue.
  shm_lane(std::shared_ptr<shm_context> context, std::size_t queue,
           std::unique_ptr<stream> liveness_stream);
  ~shm_lane() override;

  std::span<std::byte> reserve() override;
  void post(const packet_header& header, std::size_t bytes) override;
  bool post(const packet_header& header,
            std::span<const std::byte> bytes) override;
  bool post_zero_copy(const packet_header& header,
                      std::span<const std::byte> bytes) override;
  bool flush() override;
  void send_posted() override {}

  const packet_header* front() override;
  std::size_t front_bytes() const override { return bytes_; }
  std::span<const std::byte> view() override;
  bool fetch(std::span<std::byte> into) override;
  bool is_intact() override;
  void pop() override;

  bool arm(std::vector<pollfd>& watched) override;
  void disarm() override;
  const std::optional<closed_state>& closed() override;

private:
  bool update_peer_popped();
  bool has_space();
  bool has_unreleased();
  bool has_arrived();
  void send(const packet_header& header, std::size_t bytes,
            std::uint64_t offset);
  void wake_peer(const std::atomic<std::uint32_t>& wanted,
                 std::uint32_t& notified);
  void check_liveness();
  void fail(const std::string& reason);

  std::shared_ptr<shm_context> context_;
  std::size_t queue_;
  std::unique_ptr<stream> liveness_stream_;
  shm_queue& own_queue_;
  const shm_queue& peer_queue_;

  // Positions count packets from 0. The peer's positions are copies that were
  // validated, because the peer may change its memory at any time.
  /// Number of packets that this process has posted in its own queue, and
  /// number of packets that the peer has popped from that queue.
  std::uint64_t posted_ = 0, peer_popped_ = 0;
  /// Number of packets that this process has popped from the peer's queue, and
  /// number of packets that the peer has posted in that queue.
  std::uint64_t popped_ = 0, peer_posted_ = 0;

  /// Values of the peer's counters `packet_wanted` and `space_wanted` when it
  /// was last notified.
  std::uint32_t packet_notified_ = 0, space_notified_ = 0;
  /// Position after the last packet that was posted zero-copy.
  std::uint64_t zero_copy_end_ = 0;
  bool space_wanted_ = false;
  bool release_wanted_ = false; ///< True if the last `flush` returned false.
  bool has_front_ = false;
  packet_header header_{};
  std::size_t bytes_ = 0;
  std::span<const std::byte> payload_;
  bool is_zero_copy_ = false;  ///< `payload_` lies in the peer's arena.
  bool is_front_lost_ = false; ///< `is_intact` has returned false.
  std::optional<closed_state> closed_;
  bool close_reported_ = false;
  bool armed_ = false;
  unsigned liveness_calls_ = 0;
};

} // namespace troupe::net

#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/net/shm/shm_arena.hpp"
#include "troupe/net/shm/shm_segment.hpp"

#include <memory>
#include <optional>

namespace troupe::net {

/// Shared memory and notifiers that all lanes between two processes of one host
/// use.
struct shm_ground {
  shm_segment mine;
  shm_view theirs;
  std::shared_ptr<bell> my_bell;
  descriptor their_bell;
  /// Null: the peer has not mapped it.
  std::shared_ptr<const shm_arena> my_arena{};
  std::optional<shm_arena_view> their_arena{};
};

/// A lane through memory that two processes share. Packets are viewed in place
/// and have no checksum. Zero-copy payloads that lie in the arena are not
/// copied at all.
/// @cost a packet: two cache lines and its bytes; no system call unless the
///       peer waits.
class shm_lane final : public lane {
public:
  /// @param queue index of the queue in both segments, [0, shm_queues).
  /// @param liveness_stream carries no data; its end means that the peer has
  ///                        ended.
  shm_lane(std::shared_ptr<shm_ground> ground, std::size_t queue,
           std::unique_ptr<stream> beside);
  ~shm_lane() override;

  std::span<std::byte> room() override;
  void post(const parcel_head& head, std::size_t bytes) override;
  bool post(const parcel_head& head, std::span<const std::byte> bytes) override;
  bool lend(const parcel_head& head, std::span<const std::byte> bytes) override;
  bool flush() override;

  const parcel_head* front() override;
  std::size_t front_bytes() const override { return bytes_; }
  std::span<const std::byte> view() override;
  bool fetch(std::span<std::byte> into) override;
  void pop() override;

  bool before_sleep(std::vector<pollfd>& watched) override;
  void after_sleep() override;
  const std::optional<end>& ended() override;

private:
  bool look_for_room();
  bool any_room();
  bool any_lent();
  bool any_arrived();
  void send(const parcel_head& head, std::size_t bytes, std::uint64_t place);
  void wake(const std::atomic<std::uint32_t>& wanted, std::uint32_t& rung);
  void look_beside();
  void break_off(const std::string& why);

  std::shared_ptr<shm_ground> ground_;
  std::size_t queue_;
  std::unique_ptr<stream> beside_;
  shm_queue& mine_;
  const shm_queue& theirs_;

  // Positions; those of the peer were read once from its memory and validated.
  /// Own queue: posted here, popped by the peer.
  std::uint64_t posted_ = 0, let_go_ = 0;
  /// Peer's queue: popped here, posted by the peer.
  std::uint64_t popped_ = 0, arrived_ = 0;

  /// Value of the peer's wait counter that was notified last, for each.
  std::uint32_t parcel_rung_ = 0, room_rung_ = 0;
  /// Position after the last zero-copy packet.
  std::uint64_t lent_ = 0;
  bool room_missed_ = false;
  bool lent_missed_ = false; ///< The last `flush` returned false.
  bool has_front_ = false;
  parcel_head head_{};
  std::size_t bytes_ = 0;
  std::span<const std::byte> payload_;
  std::optional<end> end_;
  bool told_ = false;
  bool asleep_ = false;
  unsigned looks_ = 0;
};

} // namespace troupe::net

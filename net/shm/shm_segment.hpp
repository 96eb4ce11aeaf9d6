#pragma once

#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/memfd.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// A segment is shared memory that one process writes and one peer reads in
// place. A segment holds a queue of packets that the process sends for each
// lane. It also holds the positions up to which the process has read the peer's
// queues. docs/shared-memory.md has the layout.

namespace troupe::net {

/// State that the writer of a segment publishes for one lane. Positions count
/// packets from 0 and never decrease. A `..._wanted` counter is odd while the
/// writer waits for a packet or for space.
struct shm_queue {
  /// Packets that the writer has posted in its own queue.
  alignas(64) std::atomic<std::uint64_t> posted;
  /// Packets that the writer has popped from the peer's queue.
  alignas(64) std::atomic<std::uint64_t> popped;
  alignas(64) std::atomic<std::uint32_t> packet_wanted;
  std::atomic<std::uint32_t> space_wanted;
  /// Not zero: the writer has ended the lane, and may change the payloads that
  /// it has posted zero-copy.
  std::atomic<std::uint32_t> ended;
};

using shm_nonce = std::array<std::byte, 32>;

struct shm_header {
  /// The peer sends it back to prove that it has mapped this memory.
  shm_nonce nonce;
  /// By lane. The queues after those of the lanes are not used.
  std::array<shm_queue, max_lanes> queues;
};

struct shm_slot {
  alignas(64) packet_header header;
  /// Size of the payload in bytes.
  alignas(64) std::atomic<std::uint32_t> bytes;
  /// Offset of the payload in the writer's arena. Zero: the payload is in this
  /// slot.
  std::atomic<std::uint64_t> offset;
  alignas(64) std::array<std::byte, max_packet_bytes> payload;
  /// Padding, so that small packets in neighbouring slots use different cache
  /// sets.
  std::array<std::byte, 4096> padding;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(shm_slot) == 128 + max_packet_bytes + 4096);

inline constexpr std::uint32_t min_slots = 2, max_slots = 256;

/// The segment that this process writes: a memfd that no other process can
/// write, and that cannot shrink. A page takes memory once it is written.
class shm_segment {
public:
  /// @param lanes number of lanes, in [1, max_lanes].
  /// @param slots number of slots of each queue, in [min_slots, max_slots].
  /// @errors throws std::runtime_error if the system has no memfd or not the
  ///         seal F_SEAL_FUTURE_WRITE; std::logic_error for a number out of
  ///         range.
  shm_segment(std::uint32_t lanes, std::uint32_t slots);

  /// Returns the descriptor to send to the peer.
  int descriptor() const { return fd_.get(); }

  std::uint32_t lanes() const { return lanes_; }
  std::uint32_t slots() const { return slots_; }
  shm_header& header() const;
  shm_slot& slot(std::size_t queue, std::uint64_t position) const;

private:
  std::uint32_t lanes_, slots_;
  net::descriptor fd_;
  shm_mapping pages_;
};

/// A read-only mapping of a peer's segment. The peer may change its contents at
/// any time, so each number is read once and then validated.
class shm_view {
public:
  /// @param fd any descriptor that a peer sent.
  /// @errors throws std::runtime_error, with a sentence, if it is not a memfd,
  ///         has another size, or can shrink.
  shm_view(int fd, std::uint32_t lanes, std::uint32_t slots);

  std::uint32_t lanes() const { return lanes_; }
  std::uint32_t slots() const { return slots_; }
  const shm_header& header() const;
  const shm_slot& slot(std::size_t queue, std::uint64_t position) const;

private:
  std::uint32_t lanes_, slots_;
  shm_mapping pages_;
};

} // namespace troupe::net

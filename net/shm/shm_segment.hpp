#pragma once

#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/memfd.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// The shared memory that one process writes and another reads in place. It
// holds two queues of packets, and the writer's positions in the queues of the
// peer. docs/shared-memory.md has the layout.

namespace troupe::net {

/// State that the writer of a segment publishes about one of its queues and
/// about the queue of the peer that it reads. Positions count packets from 0
/// and never decrease. A `..._wanted` counter is odd while the writer waits for
/// that condition.
struct shm_queue {
  alignas(64) std::atomic<std::uint64_t> posted; ///< In its own queue.
  alignas(64) std::atomic<std::uint64_t> popped; ///< From the peer's queue.
  alignas(64) std::atomic<std::uint32_t> packet_wanted;
  std::atomic<std::uint32_t> space_wanted;
};

inline constexpr std::size_t shm_queues = 2;
using shm_nonce = std::array<std::byte, 32>;

struct shm_header {
  shm_nonce nonce; ///< Proves to the peer that both map this memory.
  std::array<shm_queue, shm_queues> queues;
};

struct shm_slot {
  alignas(64) packet_header header;
  alignas(64) std::atomic<std::uint32_t> bytes; ///< Size of the payload.
  /// Offset of the payload in the writer's arena. Zero: the payload is in this
  /// slot.
  std::atomic<std::uint64_t> offset;
  alignas(64) std::array<std::byte, max_packet_bytes> payload;
  /// Padding, so that small packets of different slots map to different cache
  /// sets.
  std::array<std::byte, 4096> padding;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(shm_slot) == 128 + max_packet_bytes + 4096);

inline constexpr std::uint32_t min_slots = 2, max_slots = 256;

/// A process's own segment: a memfd that no other process can write or
/// shrink. Pages take memory once they are written.
class shm_segment {
public:
  /// @pre slots in [min_slots, max_slots].
  /// @errors throws std::runtime_error if the system has no memfd with these
  ///         seals.
  explicit shm_segment(std::uint32_t slots);

  /// Descriptor to be sent to the peer.
  int descriptor() const { return fd_.get(); }

  std::uint32_t slots() const { return slots_; }
  shm_header& header() const;
  shm_slot& slot(std::size_t queue, std::uint64_t position) const;

private:
  std::uint32_t slots_;
  net::descriptor fd_;
  shm_mapping pages_;
};

/// A peer's segment. All of it may change at any time: read each number once.
class shm_view {
public:
  /// @param fd any descriptor that a peer sent.
  /// @errors throws std::runtime_error, with a sentence, unless it is a memfd
  ///         of that size that cannot shrink.
  shm_view(int fd, std::uint32_t slots);

  std::uint32_t slots() const { return slots_; }
  const shm_header& header() const;
  const shm_slot& slot(std::size_t queue, std::uint64_t position) const;

private:
  std::uint32_t slots_;
  shm_mapping pages_;
};

} // namespace troupe::net

#pragma once

#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/shm/memfd.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// What one process writes and another reads where it lies: two queues of
// parcels, and how far the writer is with the other's. docs/shared-memory.md
// has the layout.

namespace troupe::net {

/// What the writer of a segment says of one of its queues, or of the one that
/// it reads. Positions count parcels from 0 and never go back. A `..._wanted`
/// is odd while the writer sleeps until there is such.
struct shm_queue {
  alignas(64) std::atomic<std::uint64_t> posted; ///< Of its own queue.
  alignas(64) std::atomic<std::uint64_t> popped; ///< Of the other's.
  alignas(64) std::atomic<std::uint32_t> parcel_wanted;
  std::atomic<std::uint32_t> room_wanted;
};

inline constexpr std::size_t shm_queues = 2;
using shm_nonce = std::array<std::byte, 32>;

struct shm_header {
  shm_nonce nonce; ///< Proves to the other that both mean this memory.
  std::array<shm_queue, shm_queues> queues;
};

struct shm_slot {
  alignas(64) parcel_head head;
  alignas(64) std::atomic<std::uint32_t> bytes; ///< Of the payload.
  /// In the writer's arena, where the payload lies; 0: below.
  std::atomic<std::uint64_t> place;
  alignas(64) std::array<std::byte, most_parcel_bytes> payload;
  /// So that small parcels of all slots find different places in a cache.
  std::array<std::byte, 4096> gap;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(shm_slot) == 128 + most_parcel_bytes + 4096);

inline constexpr std::uint32_t least_slots = 2, most_slots = 256;

/// A segment of one's own: a memfd that nobody else can write, and nobody can
/// shorten. Pages take memory once they are written.
class shm_segment {
public:
  /// @pre slots in [least_slots, most_slots].
  /// @errors throws std::runtime_error if this system has no such memory.
  explicit shm_segment(std::uint32_t slots);

  /// To be passed on.
  int descriptor() const { return fd_.get(); }

  std::uint32_t slots() const { return slots_; }
  shm_header& header() const;
  shm_slot& slot(std::size_t queue, std::uint64_t position) const;

private:
  std::uint32_t slots_;
  net::descriptor fd_;
  shm_mapping pages_;
};

/// Another's segment. All of it may change at any time: read a number once.
class shm_view {
public:
  /// @param fd of anything, by whoever sent it.
  /// @errors throws std::runtime_error, with a sentence, unless it is memory of
  ///         that size that cannot shrink.
  shm_view(int fd, std::uint32_t slots);

  std::uint32_t slots() const { return slots_; }
  const shm_header& header() const;
  const shm_slot& slot(std::size_t queue, std::uint64_t position) const;

private:
  std::uint32_t slots_;
  shm_mapping pages_;
};

} // namespace troupe::net

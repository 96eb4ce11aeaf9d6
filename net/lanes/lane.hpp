#pragma once

#include "troupe/net/base/close_reason.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

namespace troupe::net {

/// Bytes of a parcel's head, which the lane cannot read.
inline constexpr std::size_t parcel_head_size = 64;
/// Most bytes that follow a head.
inline constexpr std::size_t most_parcel_bytes = std::size_t{256} * 1024;

using parcel_head = std::array<std::byte, parcel_head_size>;

/// Parcels between two processes, both ways, each way in order: a head and at
/// most `most_parcel_bytes`. Bounded, and it never blocks: whoever waits moves
/// it on. For one thread at a time.
class lane {
public:
  virtual ~lane() = default;

  // -- sending ----------------------------------------------------------------

  /// Where the next parcel's bytes may be written: 64-byte aligned,
  /// `most_parcel_bytes` long; empty if there is no room now. Stays the same
  /// until `post`.
  virtual std::span<std::byte> room() = 0;

  /// Sends a head and the first `bytes` of the room. @pre `room` was not empty.
  virtual void post(const parcel_head& head, std::size_t bytes) = 0;

  /// Sends bytes from where they lie; they may change when it returns.
  /// @returns false if there is no room now, or the lane has ended.
  virtual bool post(const parcel_head& head,
                    std::span<const std::byte> bytes) = 0;

  /// Sends bytes from where they lie, where the lane can: they must not change
  /// until `flush` is true.
  /// @returns false as `post`.
  virtual bool lend(const parcel_head& head, std::span<const std::byte> bytes) {
    return post(head, bytes);
  }

  /// Moves on what was posted.
  /// @returns whether all of it is out of this process's hands, and what was
  ///          lent was given back.
  virtual bool flush() = 0;

  // -- receiving --------------------------------------------------------------

  /// The head of the oldest parcel that was not popped, a copy that the peer
  /// cannot change; null if none has come.
  virtual const parcel_head* front() = 0;

  /// Of the front parcel. @pre `front` was not null.
  virtual std::size_t front_bytes() const = 0;

  /// The front parcel's bytes where they lie, until `pop`; empty if they have
  /// to be fetched.
  virtual std::span<const std::byte> view() = 0;

  /// Copies or reads the front parcel's bytes. As long as it returns false, the
  /// caller asks again with as many bytes. If the caller passes another place,
  /// the bytes that have come are not moved there: for a parcel that nobody
  /// reads.
  /// @returns whether all of them are there, and intact.
  virtual bool fetch(std::span<std::byte> into) = 0;

  /// Lets go of the front parcel. @pre it was viewed, or fetched as a whole.
  virtual void pop() = 0;

  // -- waiting ----------------------------------------------------------------

  /// Adds what `poll` has to look at before there is news of this lane: a
  /// parcel if `front` was null, more of its bytes if `fetch` was false, room
  /// if there was none, what `flush` was false for, and the lane's end, until
  /// `ended` tells of it.
  /// @returns false if there is news already.
  virtual bool before_sleep(std::vector<pollfd>& watched) = 0;

  /// After each `before_sleep`, whatever that returned. One thread of a process
  /// at a time sleeps on lanes.
  virtual void after_sleep() = 0;

  struct end {
    ending how = ending::dead;
    std::string why;
  };
  /// Set once the lane has ended; what came before that may still be read: look
  /// at `front` again before parcels are missed.
  virtual const std::optional<end>& ended() = 0;
};

/// Sleeps until there is news of one of the lanes, or the time is over.
/// @param watched of no interest to the caller; kept so that it need not grow
///        again.
/// @returns whether there is news.
bool sleep_on(std::span<lane* const> lanes, std::chrono::nanoseconds most,
              std::vector<pollfd>& watched);

} // namespace troupe::net

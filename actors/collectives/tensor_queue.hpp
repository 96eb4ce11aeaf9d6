#pragma once

#include "troupe/actors/collectives/tensor_message.hpp"

#include <atomic>
#include <cstddef>
#include <memory>

namespace troupe {

/// A replica's letter box: a ring that any thread posts to and the replica's
/// own thread empties; it allocates nothing after it was made.
///
/// Whoever posts to a parked replica has to wake it. @source D. Vyukov's
/// bounded queue.
class port {
public:
  static constexpr std::size_t size = 256;

  port();

  /// @returns false if there is no room.
  bool post(letter&& x);

  /// Owner: takes the oldest letter.
  bool take(letter& into);

  /// Owner: says that it will not look again until woken.
  /// @returns false if there is a letter already; then it is not parked.
  bool park();

  /// After `post`: whether the caller has to wake the owner; true for one
  /// caller for each time that it parked.
  bool must_wake();

private:
  struct alignas(64) slot {
    std::atomic<std::size_t> turn;
    letter content;
  };
  bool empty() const;

  std::unique_ptr<slot[]> slots_;
  alignas(64) std::atomic<std::size_t> next_post_{0};
  alignas(64) std::size_t next_take_ = 0;
  std::atomic<bool> parked_{false};
};

} // namespace troupe

#pragma once

#include "troupe/actors/collectives/tensor_message.hpp"

#include <atomic>
#include <cstddef>
#include <memory>

namespace troupe {

/// Queue of the tensor messages to a replica: a bounded ring buffer with many
/// producers and one consumer, the owner. It allocates nothing after
/// construction. After a push, the producer must wake the owner if
/// `needs_wakeup` says so.
/// @source D. Vyukov's bounded MPMC queue.
class tensor_queue {
public:
  /// Capacity in messages.
  static constexpr std::size_t size = 256;

  tensor_queue();

  /// Appends a message. May be called from any thread.
  /// @returns false if the queue is full; `message` is then unchanged.
  bool push(tensor_message&& message);

  /// Removes the oldest message. Only the owner may call this.
  /// @returns false if the queue is empty.
  bool pop(tensor_message& message);

  /// Announces that the owner will not read the queue until it is woken. Only
  /// the owner may call this.
  /// @returns false if the queue is not empty; the owner is then not parked.
  bool park();

  /// Called by a producer after each `push`.
  /// @returns true if the caller must wake the owner. Each time that the owner
  ///          parks, only one caller gets true.
  bool needs_wakeup();

private:
  struct alignas(64) slot {
    std::atomic<std::size_t> turn;
    tensor_message message;
  };
  bool empty() const;

  std::unique_ptr<slot[]> slots_;
  alignas(64) std::atomic<std::size_t> next_push_{0};
  alignas(64) std::size_t next_pop_ = 0;
  std::atomic<bool> parked_{false};
};

} // namespace troupe

#include "troupe/actors/collectives/tensor_queue.hpp"

#include <utility>

namespace troupe {

// Pushes are numbered from 0. Push n uses slot n % size. While the `turn` of
// the slot is n, the slot is free for push n. While the `turn` is n + 1, the
// slot holds the message of push n.
//
// Parking uses Dekker's algorithm. A producer writes a message and then reads
// the flag `parked_`. The owner writes the flag and then looks for a message.
// These four accesses are sequentially consistent, so the producer sees the
// flag or the owner sees the message.

tensor_queue::tensor_queue() : slots_{std::make_unique<slot[]>(size)} {
  for (std::size_t i = 0; i < size; ++i)
    slots_[i].turn.store(i, std::memory_order_relaxed);
}

bool tensor_queue::push(tensor_message&& message) {
  auto position = next_push_.load(std::memory_order_relaxed);
  for (;;) {
    auto& target = slots_[position % size];
    const auto turn = target.turn.load(std::memory_order_acquire);
    if (turn == position) {
      if (next_push_.compare_exchange_weak(position, position + 1,
                                           std::memory_order_relaxed)) {
        target.message = std::move(message);
        target.turn.store(position + 1, std::memory_order_seq_cst);
        return true;
      }
    } else if (turn < position) {
      return false;
    } else {
      position = next_push_.load(std::memory_order_relaxed);
    }
  }
}

bool tensor_queue::empty() const {
  return slots_[next_pop_ % size].turn.load(std::memory_order_seq_cst)
         != next_pop_ + 1;
}

bool tensor_queue::pop(tensor_message& message) {
  auto& source = slots_[next_pop_ % size];
  if (source.turn.load(std::memory_order_acquire) != next_pop_ + 1)
    return false;
  message = std::exchange(source.message, {});
  source.turn.store(next_pop_ + size, std::memory_order_release);
  ++next_pop_;
  return true;
}

bool tensor_queue::park() {
  parked_.store(true, std::memory_order_seq_cst);
  if (empty())
    return true;
  parked_.store(false, std::memory_order_relaxed);
  return false;
}

bool tensor_queue::needs_wakeup() {
  return parked_.load(std::memory_order_seq_cst)
         && parked_.exchange(false, std::memory_order_acq_rel);
}

} // namespace troupe

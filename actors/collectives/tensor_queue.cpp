#include "troupe/actors/collectives/tensor_queue.hpp"

#include <utility>

namespace troupe {

// Slot i accepts push number n (n % size == i) while its turn is n, and the pop
// of that message while its turn is n + 1.
//
// Parking is Dekker's algorithm: the producer writes the message and reads the
// flag, the owner writes the flag and reads the message. These four accesses
// are sequentially consistent, so at least one of the two sees the other's
// write.

port::port() : slots_{std::make_unique<slot[]>(size)} {
  for (std::size_t i = 0; i < size; ++i)
    slots_[i].turn.store(i, std::memory_order_relaxed);
}

bool port::post(letter&& x) {
  auto number = next_post_.load(std::memory_order_relaxed);
  for (;;) {
    auto& to = slots_[number % size];
    const auto turn = to.turn.load(std::memory_order_acquire);
    if (turn == number) {
      if (next_post_.compare_exchange_weak(number, number + 1,
                                           std::memory_order_relaxed)) {
        to.content = std::move(x);
        to.turn.store(number + 1, std::memory_order_seq_cst);
        return true;
      }
    } else if (turn < number) {
      return false;
    } else {
      number = next_post_.load(std::memory_order_relaxed);
    }
  }
}

bool port::empty() const {
  return slots_[next_take_ % size].turn.load(std::memory_order_seq_cst)
         != next_take_ + 1;
}

bool port::take(letter& into) {
  auto& from = slots_[next_take_ % size];
  if (from.turn.load(std::memory_order_acquire) != next_take_ + 1)
    return false;
  into = std::exchange(from.content, {});
  from.turn.store(next_take_ + size, std::memory_order_release);
  ++next_take_;
  return true;
}

bool port::park() {
  parked_.store(true, std::memory_order_seq_cst);
  if (empty())
    return true;
  parked_.store(false, std::memory_order_relaxed);
  return false;
}

bool port::must_wake() {
  return parked_.load(std::memory_order_seq_cst)
         && parked_.exchange(false, std::memory_order_acq_rel);
}

} // namespace troupe

#include "troupe/tensors/cuda/staging_ring.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::cuda {

void staging_ring::copy(std::byte* target, const std::byte* source,
                        std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  const std::lock_guard hold{lock_};
  while (bytes > 0) {
    if (filled_ >= piece_bytes_)
      begin_next_piece();
    const auto count = std::min(bytes, piece_bytes_ - filled_);
    auto* const pinned = memory_ + piece_ * piece_bytes_ + filled_;
    std::memcpy(pinned, source, count);
    to_->start_copy(target, pinned, count);
    filled_ += (count + alignment - 1) / alignment * alignment;
    target += count;
    source += count;
    bytes -= count;
  }
}

void staging_ring::begin_next_piece() {
  to_->record(piece_);
  is_recorded_[piece_] = true;
  const auto next = (piece_ + 1) % is_recorded_.size();
  if (is_recorded_[next])
    to_->wait(next);
  piece_ = next;
  filled_ = 0;
}

} // namespace troupe::cuda

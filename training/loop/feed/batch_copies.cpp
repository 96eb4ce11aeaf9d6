#include "troupe/training/loop/feed/batch_copies.hpp"

#include <algorithm>

namespace troupe {

batch_copies::batch_copies(const std::vector<device>& devices,
                           const local_placement& placement)
  : placement_{placement} {
  const auto& first = devices.front();
  const bool has_one_device =
    placement.count() < 2
    || std::ranges::count(devices, first) == std::ssize(devices);
  const std::size_t copies = has_one_device ? 1 : placement.count();
  for (std::size_t i = 0; i < copies; ++i)
    copies_.emplace_back(devices[i % devices.size()]);
}

local_batch batch_copies::part_of(const local_batch& rows,
                                  std::size_t copy) const {
  if (copies_.size() == 1)
    return rows;
  return rows.part_of_replica(placement_.replicas()[copy],
                              placement_.job.replicas());
}

void batch_copies::reserve(const local_batch& like) {
  for (std::size_t i = 0; i < copies_.size(); ++i)
    copies_[i].reserve(part_of(like, i));
}

void batch_copies::start(const local_batch& rows) {
  for (std::size_t i = 0; i < copies_.size(); ++i)
    copies_[i].start(part_of(rows, i));
}

const local_batch& batch_copies::rows_of(std::size_t index) {
  return copies_[copies_.size() == 1 ? 0 : index].rows();
}

void batch_copies::synchronize() {
  for (auto& one : copies_)
    one.synchronize();
}

void batch_copies::release() noexcept {
  for (auto& one : copies_)
    one.release();
}

} // namespace troupe

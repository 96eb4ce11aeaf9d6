#include "troupe/training/distributed_dataset.hpp"

#include <algorithm>

namespace troupe {

share share_of(std::int64_t rows, std::uint32_t id, std::uint32_t replicas) {
  const std::int64_t base = rows / replicas, longer = rows % replicas;
  const auto begin = base * id + std::min<std::int64_t>(id, longer);
  return {begin, begin + base + (id < longer ? 1 : 0)};
}

batch cut(const batch& global, const share& rows) {
  return {global.inputs.slice(rows.begin, rows.end),
          global.labels.slice(rows.begin, rows.end)};
}

distributed_dataset::steps
distributed_dataset::iterate(const data::position& from) const {
  return {strategy_.num_replicas_in_sync(), batches_.iterate(from)};
}

std::optional<per_replica<batch>> distributed_dataset::steps::next() {
  const auto global = cursor_.next();
  if (!global)
    return std::nullopt;
  if (global->labels.dims().rank() != 1)
    throw std::logic_error("a dataset is distributed after batch(); this one "
                           "yields single examples");
  std::vector<batch> parts;
  for (std::uint32_t id = 0; id < replicas_; ++id)
    parts.push_back(
      cut(*global, share_of(global->labels.dims()[0], id, replicas_)));
  return per_replica<batch>{std::move(parts)};
}

} // namespace troupe

#include "troupe/training/strategies/distributed_dataset.hpp"

#include "troupe/training/strategies/strategy_state.hpp"

namespace troupe {

distributed_dataset::steps
distributed_dataset::iterate(const data::position& start) const {
  return {strategy_, local_batches{batches_, start,
                                   strategy_.state()->placement, shares_}};
}

std::optional<per_replica<batch>> distributed_dataset::steps::next() {
  const auto rows = batches_.next();
  if (!rows)
    return std::nullopt;
  std::vector<batch> parts;
  for (const auto id : local_ids_)
    parts.push_back(rows->batch_of_replica(id, replicas_));
  return per_replica<batch>{std::move(parts), local_ids_};
}

distributed_iterator::distributed_iterator(distributed_dataset::steps& steps)
  : steps_{&steps}, current_{steps_->next()} {}

distributed_iterator::distributed_iterator(
  std::unique_ptr<distributed_dataset::steps> owned_steps)
  : owned_steps_{std::move(owned_steps)},
    steps_{owned_steps_.get()},
    current_{steps_->next()} {}

distributed_iterator::distributed_iterator(distributed_iterator&&) noexcept =
  default;
distributed_iterator&
distributed_iterator::operator=(distributed_iterator&&) noexcept = default;
distributed_iterator::~distributed_iterator() = default;

distributed_iterator& distributed_iterator::operator++() {
  current_ = steps_->next();
  return *this;
}

} // namespace troupe

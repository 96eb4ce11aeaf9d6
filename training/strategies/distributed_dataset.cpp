#include "troupe/training/strategies/distributed_dataset.hpp"

#include "troupe/training/strategies/strategy_state.hpp"

namespace troupe {

distributed_dataset::steps
distributed_dataset::iterate(const data::position& from) const {
  return {strategy_, local_batches{batches_, from, strategy_.state()->here,
                                   strategy_.num_replicas_in_sync()}};
}

std::optional<per_replica<batch>> distributed_dataset::steps::next() {
  const auto all = batches_.next();
  if (!all)
    return std::nullopt;
  std::vector<batch> parts;
  for (auto id = first_; id < first_ + count_; ++id)
    parts.push_back(all->part_of(id, replicas_));
  return per_replica<batch>{std::move(parts), first_};
}

distributed_iterator::distributed_iterator(distributed_dataset::steps& of)
  : of_{&of}, now_{of_->next()} {}

distributed_iterator::distributed_iterator(
  std::unique_ptr<distributed_dataset::steps> own)
  : own_{std::move(own)}, of_{own_.get()}, now_{of_->next()} {}

distributed_iterator::distributed_iterator(distributed_iterator&&) noexcept =
  default;
distributed_iterator&
distributed_iterator::operator=(distributed_iterator&&) noexcept = default;
distributed_iterator::~distributed_iterator() = default;

distributed_iterator& distributed_iterator::operator++() {
  now_ = of_->next();
  return *this;
}

} // namespace troupe

#pragma once

#include "troupe/training/strategies/local_batches.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <atomic>
#include <iterator>
#include <memory>
#include <optional>

namespace troupe {

/// A batched dataset and the strategy over whose replicas its batches are
/// divided. Replica i gets rows `shard_of(rows, i, replicas)` of each batch,
/// whichever process runs it. Each part carries the row count of the global
/// batch: `batch::global_rows`.
class distributed_dataset {
public:
  distributed_dataset(strategy over, data::dataset batches)
    : strategy_{std::move(over)},
      batches_{std::move(batches)},
      epochs_begun_{std::make_shared<std::atomic<std::uint64_t>>(0)} {}

  const troupe::strategy& run_strategy() const { return strategy_; }
  const data::dataset& batches() const { return batches_; }

  /// Reads one epoch; each element is a `per_replica` batch for `strategy.run`.
  class steps;

  /// Reads the rest of an epoch from a position, also in a range-for. It is not
  /// counted among the epochs of `begin`.
  steps iterate(const data::position& start = {}) const;

  /// A range-for over the dataset reads one epoch: the first loop reads epoch
  /// 0, each later loop the next. A shuffled dataset has another order in each
  /// epoch. Copies of this object share the epoch counter, but each call of
  /// `distribute` makes an object that begins with epoch 0: call it once,
  /// before the loops. All workers must begin equally many loops. To look at a
  /// batch on one worker, use `iterate({0, 0})`, which is not counted.
  auto begin() const;
  std::default_sentinel_t end() const { return {}; }

private:
  strategy strategy_;
  data::dataset batches_;
  /// Epochs begun by `begin`.
  std::shared_ptr<std::atomic<std::uint64_t>> epochs_begun_;
};

/// Iterator for a range-for over the rest of an epoch.
class distributed_iterator {
public:
  using value_type = per_replica<batch>;
  using difference_type = std::ptrdiff_t;

  explicit distributed_iterator(distributed_dataset::steps& steps);
  explicit distributed_iterator(
    std::unique_ptr<distributed_dataset::steps> owned_steps);
  distributed_iterator(distributed_iterator&&) noexcept;
  distributed_iterator& operator=(distributed_iterator&&) noexcept;
  ~distributed_iterator();

  const value_type& operator*() const { return *current_; }
  distributed_iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !current_; }

private:
  /// Null: the caller owns the steps.
  std::unique_ptr<distributed_dataset::steps> owned_steps_;
  distributed_dataset::steps* steps_;
  std::optional<value_type> current_;
};

class distributed_dataset::steps {
public:
  steps(const strategy& over, local_batches batches)
    : local_ids_{over.local_replica_ids()},
      replicas_{over.num_replicas_in_sync()},
      batches_{std::move(batches)} {}

  /// @returns none at the end of the epoch.
  std::optional<per_replica<batch>> next();

  data::position save() const { return batches_.save(); }

  distributed_iterator begin() { return distributed_iterator{*this}; }
  std::default_sentinel_t end() const { return {}; }

private:
  std::vector<std::uint32_t> local_ids_;
  std::uint32_t replicas_;
  local_batches batches_;
};

inline auto distributed_dataset::begin() const {
  return distributed_iterator{
    std::make_unique<steps>(iterate({epochs_begun_->fetch_add(1), 0}))};
}

} // namespace troupe

#pragma once

#include "troupe/training/local_batches.hpp"
#include "troupe/training/strategy.hpp"

namespace troupe {

/// A batched dataset and the strategy whose replicas its batches are cut over:
/// part i of each batch (`share_of`) is replica i's, wherever that runs. Each
/// part knows how many rows the whole has: `batch::global_rows`.
class distributed_dataset {
public:
  distributed_dataset(strategy over, data::dataset batches)
    : strategy_{std::move(over)}, batches_{std::move(batches)} {}

  const troupe::strategy& over() const { return strategy_; }
  const data::dataset& batches() const { return batches_; }

  /// Reads one pass; each step is a part per replica for `strategy.run`.
  class steps;
  steps iterate(const data::position& from = {}) const;
  auto begin() const;
  std::default_sentinel_t end() const { return {}; }

private:
  strategy strategy_;
  data::dataset batches_;
};

class distributed_dataset::steps {
public:
  steps(const strategy& over, local_batches batches)
    : first_{over.first_local_replica()},
      count_{over.local_replicas()},
      replicas_{over.num_replicas_in_sync()},
      batches_{std::move(batches)} {}

  /// @returns none at the end of the pass.
  std::optional<per_replica<batch>> next();

  data::position save() const { return batches_.save(); }

private:
  std::uint32_t first_, count_, replicas_;
  local_batches batches_;
};

/// For a range-for over one pass.
class distributed_iterator {
public:
  using value_type = per_replica<batch>;
  using difference_type = std::ptrdiff_t;

  explicit distributed_iterator(distributed_dataset::steps of)
    : of_{std::move(of)}, now_{of_.next()} {}
  const value_type& operator*() const { return *now_; }
  distributed_iterator& operator++() {
    now_ = of_.next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !now_; }

private:
  distributed_dataset::steps of_;
  std::optional<value_type> now_;
};

inline auto distributed_dataset::begin() const {
  return distributed_iterator{iterate()};
}

} // namespace troupe

#pragma once

#include "troupe/training/strategy.hpp"

namespace troupe {

/// Rows [begin, end) of a global batch.
struct share {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const share&, const share&) = default;
};

/// Replica `id`'s part of a global batch: the parts follow each other in order
/// of id, any two differ by at most one row, the longer ones come first. A
/// short batch is cut alike, so a part may be empty.
share share_of(std::int64_t rows, std::uint32_t id, std::uint32_t replicas);

/// Those rows; shares the elements.
batch cut(const batch& global, const share& rows);

/// A batched dataset and the strategy whose replicas its batches are cut over.
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
  steps(std::uint32_t replicas, data::cursor from)
    : replicas_{replicas}, cursor_{std::move(from)} {}

  /// @returns none at the end of the pass.
  std::optional<per_replica<batch>> next();

  data::position save() const { return cursor_.save(); }

private:
  std::uint32_t replicas_;
  data::cursor cursor_;
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

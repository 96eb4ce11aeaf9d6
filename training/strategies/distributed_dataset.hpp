#pragma once

#include "troupe/training/strategies/replica/local_batches.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

class distributed_iterator;
class epoch_counter;

/// Divides each batch of a dataset over the replicas of a strategy. In a job of
/// several workers, the first step of an epoch and a `strategy::loop` compare
/// the data of all workers. They compare numbers of batches and examples, and
/// hashes of the first and the last batch. The step throws
/// std::invalid_argument on all workers if they differ. Replica i gets the rows
/// `rows_of_replicas(rows, i, i + 1, replicas, shares)` of a batch, in whatever
/// process the replica runs. Each part has the row count of the whole batch in
/// `batch::global_rows`.
class distributed_dataset {
public:
  /// @errors throws as `check_replica_shares`.
  distributed_dataset(strategy over, data::dataset batches,
                      batch_shares shares = {});

  const troupe::strategy& run_strategy() const { return strategy_; }
  const data::dataset& batches() const { return batches_; }
  const batch_shares& shares() const { return shares_; }

  /// Reads one epoch. Each element is a `per_replica<batch>`, an argument for
  /// `strategy::run`.
  class steps;

  /// Returns a reader of the batches from `start` to the end of its epoch. A
  /// range-for accepts the reader, which does not advance the counter of
  /// `begin`.
  steps iterate(const data::position& start = {}) const;

  /// A range-for over the dataset reads one epoch: the first loop reads epoch
  /// 0, and each later loop reads the next epoch. A shuffled dataset has
  /// another order in each epoch. Copies of this object share the epoch
  /// counter. Call `distribute` once, before the loops, because each call makes
  /// an object that begins with epoch 0. All workers must begin the same number
  /// of loops. To look at a batch on one worker, use `iterate({0, 0})`, which
  /// does not advance the counter.
  distributed_iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  /// For the library's own use. Begins an epoch, as `begin` does.
  /// @returns its number.
  std::uint64_t begin_epoch() const;
  /// For the library's own use. Number of epochs that were begun.
  std::uint64_t epochs_begun() const;
  void set_epochs_begun(std::uint64_t epochs) const;
  /// For the library's own use. Describes what must be equal in all workers,
  /// one "name: value" a line.
  std::string description() const;

private:
  strategy strategy_;
  data::dataset batches_;
  batch_shares shares_;
  std::shared_ptr<epoch_counter> epochs_begun_;
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
  /// Reader of the epoch, if the iterator owns it. Null: the caller owns
  /// `*steps_`.
  std::unique_ptr<distributed_dataset::steps> owned_steps_;
  distributed_dataset::steps* steps_;
  std::optional<value_type> current_;
};

class distributed_dataset::steps {
public:
  steps(const strategy& over, const data::dataset& batches,
        const data::position& start, const batch_shares& shares);

  /// Returns the next batch. None: the epoch has ended. If another process is
  /// lost, this process reads the rows of the replicas that it takes over, also
  /// of batches that were returned before.
  std::optional<per_replica<batch>> next();

  data::position save() const { return local_.save(); }

  distributed_iterator begin() { return distributed_iterator{*this}; }
  std::default_sentinel_t end() const { return {}; }

private:
  strategy strategy_;
  data::dataset batches_;
  batch_shares shares_;
  std::uint64_t
    view_; ///< `strategy_state::views` of the placement of `local_`.
  local_batches local_;
};

} // namespace troupe

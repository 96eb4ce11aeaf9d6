#pragma once

#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

namespace troupe {

/// What an iteration of a `training_loop` works on.
struct loop_iteration {
  /// The parts of the batch, an argument for `strategy::run`.
  per_replica<batch> values;
  std::uint64_t epoch = 0;  ///< Epoch of the loop, from 0.
  std::uint64_t index = 0;  ///< Index of the batch in its epoch.
  std::uint64_t number = 0; ///< Number of earlier iterations of the loop.
  /// True in the first iteration that this process makes. In a process that
  /// has joined the job, that need not be the first one of the loop.
  bool is_first_here = false;
};

/// A loop over the batches of a distributed dataset, the result of
/// `strategy::loop`. In a job of several workers, the loop is one call of the
/// job. A process that joins begins with the iteration that the job begins
/// next, and skips a loop that the job has finished:
///
///   begin    all workers compare name, dataset, epochs and models
///   before each iteration  all workers gather their positions. If a process
///            asks to join, they wait until it is admitted, and copy to it the
///            models, the optimizers and the numbers on which random draws and
///            the order of the data depend
///   in it    `run`, `reduce`, `gather`, `fit`, `evaluate` and `save`, as
///            outside of a loop. The loss of a worker is survived
///   end      after the last iteration, or after `break` or `return` in the
///            same iteration of all workers
/// A process that joins has none of what earlier iterations have left in
/// variables of the program, such as sums: it begins with their initial values.
/// So use them for reports of one iteration only, or not at all. Two loops
/// after each other may have the same name.
/// @errors the iteration throws std::invalid_argument on all workers if one of
///         them begins another loop, or leaves the loop in another iteration;
///         the error names it. It throws std::logic_error in another loop of
///         the strategy, and if the loop was begun before. It also throws as
///         reading the dataset and as `fit` throw. If the body throws, the
///         other workers are not told; no process can join afterwards.
/// @cost in a job of several workers, one gather of some bytes for each
///       iteration. While a process joins, the others wait until it is
///       admitted, at most 5 s, and for the copy of the state.
class training_loop {
public:
  /// @errors as `strategy::loop`.
  training_loop(const strategy& over, std::string name,
                const distributed_dataset& batches,
                const loop_options& options);
  training_loop(const training_loop&) = delete;
  training_loop& operator=(const training_loop&) = delete;
  /// Ends the loop after `break`.
  /// @errors throws as an iteration, unless an exception is active.
  ~training_loop() noexcept(false);

  class iterator {
  public:
    using value_type = loop_iteration;
    using difference_type = std::ptrdiff_t;

    explicit iterator(training_loop& loop) : loop_{&loop} {}

    loop_iteration& operator*() const;
    iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const;

  private:
    training_loop* loop_;
  };

  /// Begins the loop. Call it once.
  iterator begin();
  std::default_sentinel_t end() const { return {}; }

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/training/strategies/calls/step_results.hpp"
#include "troupe/training/strategies/replica/per_replica.hpp"
#include "troupe/training/strategies/replica/replica_context.hpp"
#include "troupe/training/strategies/replica/scalar_source.hpp"
#include "troupe/training/strategies/strategy_run.hpp"

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

class replica_group;
class distributed_dataset;
class strategy_scope;
class training_loop;
struct strategy_state;

/// Options of `strategy::loop`.
struct loop_options {
  /// Epochs of the dataset that the loop reads. The first one is the next epoch
  /// of the dataset, as a range-for over it reads it.
  std::uint64_t epochs = 1;
  /// Epoch of the loop and index of the batch with which it begins. A program
  /// that resumes a saved model sets it: {2, 5} is the sixth batch of the third
  /// epoch. Earlier batches are not read, but count in `epoch`, `index` and
  /// `number` of the iterations. With {epochs, 0} the loop has no iteration.
  data::position first{};
};

/// Decides where a program computes and how its replicas stay synchronized. A
/// `strategy` is a handle: copies refer to the same strategy. The derived
/// classes construct it: `default_strategy`, `one_device_strategy`,
/// `mirrored_strategy` and `central_storage_strategy` (local_strategies.hpp)
/// and `multi_worker_mirrored_strategy` (multi_worker.hpp).
///
/// Code runs in one of two contexts. A function that `run` calls for a replica
/// runs in *replica context*, and so does code outside any scope. Code in a
/// strategy's `scope` but outside `run` is in *cross-replica context*.
class strategy {
public:
  /// Returns the name of the kind of strategy, such as "mirrored".
  const std::string& name() const;
  std::uint32_t num_replicas_in_sync() const; ///< Replicas of all workers.
  const std::vector<device>& devices() const; ///< Devices of this worker.
  int threads() const; ///< Threads of each replica's ops.

  /// The workers are the processes that train together. A job of one process
  /// has one worker.
  std::uint32_t workers() const;
  std::uint32_t worker() const; ///< This worker, in [0, workers).
  /// Ids of this worker's replicas, ascending. They need not be consecutive.
  const std::vector<std::uint32_t>& local_replica_ids() const;

  /// Returns the transport of tensors to the other workers: "shm", "tcp" or
  /// "tls". If there are several transports, "+" joins them. "none": there has
  /// been no other worker. The last worker of a job keeps the value.
  const std::string& transport() const;

  /// Returns true on worker 0, which writes files and prints for all workers.
  bool is_chief() const { return worker() == 0; }

  /// Makes this strategy current during the lifetime of the result. A model
  /// that is made during that time belongs to this strategy.
  /// @errors throws std::logic_error while another strategy is in scope, and in
  ///         a replica's function.
  [[nodiscard]] strategy_scope scope() const;

  /// Calls `fn(replica_context&, args...)`, or `fn(args...)`, once for each
  /// replica, on the thread of that replica. If an argument is a `per_replica`,
  /// each replica gets its own value. In a job of several workers, every worker
  /// must call `run`. `run` copies or moves `fn` and the arguments. It passes
  /// an object by reference if the object can be neither copied nor moved.
  ///
  /// In a job of several workers a call is made as a whole or not at all. If a
  /// worker is lost, models and optimizers of this strategy return to their
  /// state before the call. Then the other workers make the call again with the
  /// replicas of the lost one. So `fn` may be called more than once for a
  /// replica, and for replicas that this worker did not have before. Other
  /// objects that `fn` changes keep their changes.
  /// @returns the results of this worker's replicas as `per_replica`. If `fn`
  ///          returns void, `run` returns void.
  /// @cost in a job of several workers, a copy of the parameters and slots in
  ///       memory. Also a gather of the results, if each takes at most 1 MiB.
  ///       Each 100th call also compares hashes of the variables of all models.
  /// @errors an exception of `fn` ends the step on all replicas. `run` rethrows
  ///         the exception of the replica with the lowest id. Throws
  ///         `job_error` if a replica waits for another replica longer than the
  ///         step timeout. Throws std::logic_error in a replica's function. If
  ///         the text of a `job_error` says that a replica is still inside
  ///         `fn`, the objects to which `fn` refers must exist until it has
  ///         returned. The library itself keeps the copies of `fn` and of the
  ///         arguments.
  template <class F, class... Args>
  auto run(F&& fn, Args&&... args) const;

  /// Reduces one value per replica to one value: elementwise, or also over axes
  /// (reduce_op.hpp). It serves to report metrics; within a step, replicas call
  /// `all_reduce`. In a job of several workers, every worker must call
  /// `reduce`, and every worker gets the result, also if a worker is lost. The
  /// result is on the CPU.
  /// @errors throws std::logic_error in a replica's function. Throws
  ///         `job_error` if `values` has no value for a replica of a worker
  ///         that is lost (per_replica.hpp).
  tensor reduce(reduce_op op, const per_replica<tensor>& values) const;
  tensor reduce(reduce_op op, const per_replica<tensor>& values,
                const axes& over) const;

  /// Reduces one number per replica. The sum is added in the order of the
  /// canonical tree. The mean is that sum divided by the number of replicas.
  template <std::floating_point T>
  T reduce(reduce_op op, const per_replica<T>& values) const;

  /// Reduces a value that is equal on all replicas. The mean is the value
  /// itself.
  /// @errors throws std::logic_error for a sum over more than one replica.
  tensor reduce(reduce_op op, const tensor& value) const;

  /// Concatenates the values of all replicas along an axis. In a job of several
  /// workers, every worker must call `gather`. The result is on the CPU.
  tensor gather(const per_replica<tensor>& values, int axis) const;

  /// Returns the values that `x` holds, one for each replica of this worker. If
  /// `x` is no `per_replica`, returns `x` as the only value.
  template <class T>
  const std::vector<T>& local_results(const per_replica<T>& x) const {
    return x.values();
  }
  template <class T>
  std::vector<T> local_results(const T& x) const {
    return {x};
  }

  /// Returns `fn(id)` for each of this worker's replicas, where `id` is the
  /// replica's number in the job.
  template <class F>
  auto values_from(F&& fn) const;

  /// Returns a dataset that divides each batch of `batches` over the replicas.
  /// @param replica_shares Relative sizes of the replicas' parts of a batch, by
  ///        replica id. With {3, 1}, replica 0 gets three quarters of each
  ///        batch. The number of examples is rounded to a whole number. Empty:
  ///        the parts are equal. All workers must pass the same shares.
  /// @errors throws std::invalid_argument unless there is one share from 1 to
  ///         1'000'000 for each replica of the job, or none.
  distributed_dataset
  distribute(data::dataset batches,
             std::vector<std::uint32_t> replica_shares = {}) const;

  /// Returns a range for a range-for over the batches of some epochs, into
  /// whose iterations a process can join (training_loop.hpp):
  ///
  ///   for (auto& step : strategy.loop("train", batches, {.epochs = 6}))
  ///     strategy.run(fn, step.values);
  ///
  /// In a job of several workers, every worker must begin the same loop.
  /// @param name name of the loop in error texts.
  /// @errors throws std::invalid_argument for 0 epochs, and if `first` is
  ///         behind the end of the loop or of an epoch. Throws std::logic_error
  ///         in a replica's function, and for the dataset of another strategy.
  training_loop loop(std::string name, const distributed_dataset& batches,
                     const loop_options& options = {}) const;

  /// Says how far the job is, why its next step is not done, and what this
  /// process has decided lately. The text names the missing replicas and
  /// processes, their operation and time, and the view changes with their
  /// phases. Any thread may call it, also while another one is in `run` or
  /// `fit`. It does not wait for the run and does not delay it. It asks the
  /// replicas of all processes; those that do not answer are named.
  /// @param timeout maximum time to wait for the answers.
  /// @returns text for people by `to_text` or `<<`. `troupe status` shows the
  ///          same text.
  job_status explain(
    std::chrono::milliseconds timeout = std::chrono::milliseconds{500}) const;

  friend bool operator==(const strategy&, const strategy&) = default;

  /// For the library's own use.
  explicit strategy(std::shared_ptr<strategy_state> state)
    : state_{std::move(state)} {}
  const std::shared_ptr<strategy_state>& state() const { return state_; }

private:
  void run_step(const std::function<void(replica_context&)>& fn,
                const std::shared_ptr<step_results>& results) const;
  std::uint64_t runs() const; ///< Number of calls of `run` that have succeeded.
  void check_cross_replica(const char* operation) const;

  std::shared_ptr<strategy_state> state_;
};

/// Ends the scope of a strategy in its destructor. Nested scopes must end in
/// the reverse order of their begin.
class strategy_scope {
public:
  explicit strategy_scope(std::shared_ptr<strategy_state> state);
  ~strategy_scope();
  strategy_scope(strategy_scope&&) noexcept;
  strategy_scope& operator=(strategy_scope&&) = delete;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Returns the strategy in scope, also within a replica's function. If no
/// strategy is in scope, returns the default strategy.
strategy get_strategy();

/// Returns true if a strategy other than the default strategy is in scope.
bool has_strategy();

/// Returns the context of the replica that runs the calling code. If no
/// strategy is in scope, returns the context of the default strategy's replica.
/// Null: the caller is in cross-replica context.
replica_context* get_replica_context();

inline bool in_cross_replica_context() {
  return get_replica_context() == nullptr;
}

// -- implementation of templates ----------------------------------------------

template <class F, class... Args>
auto strategy::run(F&& fn, Args&&... args) const {
  const auto call =
    std::make_shared<detail::stored_call<F, Args...>>(fn, args...);
  using result =
    std::decay_t<decltype((*call)(std::declval<replica_context&>()))>;
  if constexpr (std::is_void_v<result>) {
    run_step([call](replica_context& self) { (*call)(self); },
             std::make_shared<step_results>(state_, runs()));
  } else {
    using results_type = typed_step_results<result>;
    const auto results =
      std::make_shared<results_type>(state_, runs(), num_replicas_in_sync());
    run_step(
      [call, results](replica_context& self) {
        results->set(self.replica_id(), (*call)(self));
      },
      results);
    return results_type::take(results, local_replica_ids());
  }
}

template <std::floating_point T>
T strategy::reduce(reduce_op op, const per_replica<T>& x) const {
  return static_cast<T>(
    reduce(op, detail::scalars_of(x)).template item<double>());
}

template <class F>
auto strategy::values_from(F&& fn) const {
  std::vector<std::decay_t<decltype(fn(std::uint32_t{}))>> values;
  for (const auto id : local_replica_ids())
    values.push_back(fn(id));
  return per_replica{std::move(values), local_replica_ids()};
}

} // namespace troupe

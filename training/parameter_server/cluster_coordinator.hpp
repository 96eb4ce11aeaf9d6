#pragma once

#include "troupe/actors/node/client_options.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"
#include "troupe/training/parameter_server/per_worker.hpp"
#include "troupe/training/parameter_server/remote_value.hpp"
#include "troupe/training/parameter_server/worker_dataset.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

/// What a closure may use. A closure gets it as its first argument if it wants.
class closure_context {
public:
  explicit closure_context(closure_environment& x) : environment_{x} {}

  /// Returns the number of the worker that executes the closure.
  std::uint32_t worker() const { return environment_.worker; }
  /// Returns how many closures were scheduled before this one.
  std::uint64_t ordinal() const { return environment_.execution.ordinal; }
  /// Returns how often the execution of this closure was begun, from 1.
  std::uint32_t attempt() const { return environment_.execution.attempt; }
  /// True if the closure shall return: its result and its changes have no
  /// effect. A closure that computes for long has to ask. A read of a variable
  /// ends such a closure by itself.
  bool stopped() const { return environment_.is_stopped(); }

  /// Tells the coordinator something before the closure is done, such as how
  /// far it is (`report_function`).
  /// @errors throws std::logic_error for more than 64 KiB. It counts 64 bytes
  ///         for each tensor too.
  void report(tensors what) { environment_.report(std::move(what)); }

private:
  closure_environment& environment_;
};

/// Gets the reports of a closure, in their order, on a thread of the
/// coordinator, until the closure is done. It must not wait, and must not
/// throw. If the worker of a closure is lost, another execution of the closure
/// reports from its own beginning, and later reports of the lost one have no
/// effect. A closure on a node fails if more than 4,096 of its worker's reports
/// wait for the coordinator.
using report_function = std::function<void(const tensors&)>;

/// Options of one closure.
struct closure_options {
  /// Gets what the closure reports. Empty: no effect.
  report_function on_report{};
  /// The closure ends only if others are executed at the same time, such as the
  /// replicas of a training. Then a worker begins it at once, beside all others
  /// that it executes: `in_flight`, `interleaved` and `max_unfinished` do not
  /// count it. Closures of a worker share one thread, so it must wait by reads
  /// of variables, and by nothing else. It begins again on a worker that joins,
  /// if that has fewer of them.
  bool waits_for_others = false;
};

/// Options of a `cluster_coordinator`.
struct coordinator_options {
  /// Closures that a worker has at once. With 1, a closure sees the changes of
  /// all closures that its worker has executed before. With more, a worker does
  /// not wait for the coordinator between two closures, and may not see the
  /// changes of the last `in_flight - 1`. At most 1,024 for workers on nodes,
  /// which may not see those of the last one either.
  std::uint32_t in_flight = 1;
  /// Closures of these that a worker executes at a time, on one thread: while
  /// one waits for the values of a variable, another one begins or goes on. So
  /// a worker computes while it reads. Above 1, what a closure keeps in a
  /// `per_worker` value or a dataset can be changed by another closure between
  /// two reads of variables.
  std::uint32_t interleaved = 1;
  /// `schedule` waits while so many closures are not done.
  std::uint64_t max_unfinished = 256 * 1024;
  /// Addresses of nodes, "host:port", each of which gets one worker. Empty: the
  /// workers are threads of this process.
  std::vector<std::string> nodes{};
  /// Name of the closures that the nodes have registered
  /// (registered_closures.hpp). Needs `nodes`.
  std::string closures{};
  /// What the factory of these closures gets on each node. At most 768 KiB.
  std::string arguments{};
  client_options node_connection{.window = 4096}; ///< To each of the nodes.
  /// If it is above 0, the coordinator tries at this interval to connect again
  /// to a node whose worker was lost, or that could not be reached at first: a
  /// process that was started again takes the place of the lost one.
  std::chrono::milliseconds reconnect_interval{0};
  /// Maximum wait until a worker on a node can execute closures.
  std::chrono::milliseconds start_timeout{60'000};
};

/// Schedules closures on the workers of a parameter-server strategy, as
/// TensorFlow's ClusterCoordinator does. Each closure counts once: if it is
/// executed several times, because a worker was removed, the changes of one
/// execution take place, on all servers. The protocol is in
/// docs/protocols/coordinator.md.
///
/// If a closure throws, the others are cancelled. The next call of `schedule`,
/// `join` or `done` rethrows the exception, once; no closure is executed at
/// that time. Then the coordinator can be used again.
///
/// Any thread but a worker's may call all functions.
class cluster_coordinator {
public:
  /// Starts the workers of the strategy, which has one coordinator at a time.
  /// @errors throws std::invalid_argument if an option is 0 or too large, or if
  ///         workers on nodes could not reach servers of this process, and
  ///         std::logic_error while the strategy has another coordinator; for
  ///         nodes, throws what `add_worker` throws.
  explicit cluster_coordinator(const parameter_server_strategy& strategy,
                               const coordinator_options& options = {});

  /// Stops the workers. Closures that are not done are cancelled. Waits for an
  /// attempt to connect again (`reconnect_interval`), and at most 5 s for each
  /// worker; a worker that still computes then goes on, and ends
  /// after its closure.
  ~cluster_coordinator();
  cluster_coordinator(const cluster_coordinator&) = delete;
  cluster_coordinator& operator=(const cluster_coordinator&) = delete;

  /// Schedules `fn(closure_context&, args...)` or `fn(args...)` on any worker.
  /// Copies `fn` and the arguments; each execution gets them as constants. Of
  /// an argument `per_worker<T>` it gets the T& of its worker. An argument must
  /// not be a `remote_value`: this does not compile. Waits only while
  /// `max_unfinished` closures are not done.
  /// @returns the future result; `remote_value<void>` if `fn` returns void.
  /// @errors rethrows the exception of an earlier closure, and then schedules
  ///         nothing. Throws `job_error` if a server has ended, and
  ///         std::logic_error in a closure.
  template <class F, class... Args>
  requires(!is_remote_value<std::decay_t<Args>> && ...) auto schedule(
    F&& fn, Args&&... args);

  /// The same, with options.
  template <class F>
  auto schedule_with(closure_options options, F&& fn);

  /// Schedules a closure that workers on nodes have registered.
  /// @param inputs must not change until the closure is done.
  /// @returns its results.
  /// @errors throws what `schedule` throws; std::invalid_argument if there is
  ///         no such closure; std::logic_error if the workers are threads. A
  ///         closure that throws on a node gives a `job_error` with the code
  ///         `ec::invalid` and the text, the worker and its address.
  remote_value<tensors> schedule_named(const std::string& name,
                                       tensors inputs = {},
                                       closure_options options = {});

  /// Waits until all closures are done.
  /// @errors as `schedule`
  void join();
  /// Waits until all closures are done, at most for this time.
  /// @returns false if some are not.
  /// @errors as `schedule`
  bool join_for(std::chrono::milliseconds timeout);
  /// Returns true if all closures are done.
  /// @errors as `schedule`
  bool done();

  /// Waits until at least `count` of some closures of this coordinator are done
  /// or have failed, or until no closure can be done any more.
  /// @returns false if this is not so after the timeout.
  /// @errors throws std::logic_error in a closure, and for a closure of another
  ///         coordinator. The errors of closures are left to `schedule`, `join`
  ///         and `done`.
  template <class T>
  bool wait_for_some(std::span<const remote_value<T>> some, std::size_t count,
                     std::chrono::milliseconds timeout) const {
    std::vector<std::shared_ptr<const closure_result>> results;
    for (const auto& one : some)
      results.push_back(one.state());
    return wait_for_results(results, count, timeout);
  }

  /// Waits for results.
  /// @errors as `remote_value::get`
  template <class T>
  T fetch(const remote_value<T>& x) const {
    return x.get();
  }
  template <class T>
  std::vector<T> fetch(const std::vector<remote_value<T>>& list) const {
    std::vector<T> out;
    for (const auto& x : list)
      out.push_back(x.get());
    return out;
  }

  /// Returns a value for each worker, made by `make(worker)` on the worker.
  template <std::invocable<std::uint32_t> F>
  auto create_per_worker(F make) const {
    return per_worker<std::invoke_result_t<F&, std::uint32_t>>{std::move(make),
                                                               strategy_name()};
  }

  /// Returns a position in a dataset for each worker. Each worker reads all
  /// elements of the dataset; see `worker_dataset`. Only closures of this
  /// strategy can read it.
  per_worker<worker_dataset>
  create_per_worker_dataset(const data::dataset& elements) const;
  /// The same with a dataset of its own for each worker.
  per_worker<worker_dataset> create_per_worker_dataset(
    std::function<data::dataset(std::uint32_t worker)> elements) const;

  /// Adds a worker. It has the lowest number that is free, and goes on with the
  /// per-worker values of that number.
  /// @returns its number.
  /// @errors throws std::logic_error if the workers are on nodes.
  std::uint32_t add_worker();
  /// Adds a worker on a node, for example that of one that was lost.
  /// @errors throws std::logic_error if the workers are threads;
  ///         std::invalid_argument if the node has other closures than the
  ///         others; `job_error` if it cannot be a worker.
  std::uint32_t add_worker(const std::string& node);

  /// Removes a worker. What it executes is executed by other workers. If there
  /// is none, the closures wait for one that is added.
  /// @param timeout maximum wait for the end of the closure that it executes.
  /// @returns false if the closure has not ended in time. Its number is then
  ///          not used again.
  /// @errors throws std::invalid_argument if there is no such worker.
  bool remove_worker(std::uint32_t worker, std::chrono::milliseconds timeout =
                                             std::chrono::milliseconds{5000});

  /// Returns the numbers of the workers, ascending. A worker on a node that was
  /// lost is not among them.
  std::vector<std::uint32_t> workers() const;

  /// Returns true if the workers are on nodes, false if they are threads.
  bool has_nodes() const;

  /// Name of the strategy of this coordinator.
  const std::string& strategy_name() const;

  /// For the library's own use. Excludes the calls of other threads that need
  /// all workers, as long as the result exists.
  /// @param call name of the calling function.
  /// @errors throws std::logic_error if another thread is in such a call, and
  /// if
  ///         closures are not done. As `done`.
  [[nodiscard]] std::unique_lock<std::recursive_mutex>
  lock_workers(const std::string& call);

private:
  using function = std::function<coordinator::payload(closure_environment&)>;
  std::shared_ptr<const closure_result> add(function fn,
                                            closure_options options = {});
  std::shared_ptr<const closure_result>
  add(const std::function<std::shared_ptr<closure>()>& make,
      closure_options options);
  bool
  wait_for_results(std::span<const std::shared_ptr<const closure_result>> some,
                   std::size_t count, std::chrono::milliseconds timeout) const;

  struct impl;
  std::unique_ptr<impl> impl_;
};

// -- implementation of templates ----------------------------------------------

namespace detail {

/// Returns what a closure gets of an argument.
template <class T>
const T& closure_argument(const T& x) {
  return x;
}
template <class T>
T& closure_argument(const per_worker<T>& x) {
  return x.local();
}

template <class F, class... Args>
decltype(auto) call_closure(const F& fn, closure_context& self,
                            const Args&... args) {
  if constexpr (std::invocable<const F&, closure_context&,
                               decltype(closure_argument(args))...>)
    return fn(self, closure_argument(args)...);
  else
    return fn(closure_argument(args)...);
}

} // namespace detail

namespace detail {

/// The result of a closure with these arguments.
template <class F, class... Args>
using closure_result_of = std::decay_t<decltype(call_closure(
  std::declval<const std::decay_t<F>&>(), std::declval<closure_context&>(),
  std::declval<const std::decay_t<Args>&>()...))>;

/// Returns a closure that hides its arguments and the type of its result.
template <class F, class... Args>
std::function<coordinator::payload(closure_environment&)>
erase_closure(F&& fn, Args&&... args) {
  return [fn = std::decay_t<F>(std::forward<F>(fn)),
          xs = std::tuple<std::decay_t<Args>...>(std::forward<Args>(args)...)](
           closure_environment& environment) {
    closure_context self{environment};
    const auto call = [&]() -> decltype(auto) {
      return std::apply(
        [&](const auto&... x) -> decltype(auto) {
          return call_closure(fn, self, x...);
        },
        xs);
    };
    using result = closure_result_of<F, Args...>;
    if constexpr (std::is_void_v<result>) {
      call();
      return coordinator::payload{};
    } else {
      return coordinator::payload{std::make_shared<const result>(call())};
    }
  };
}

} // namespace detail

template <class F, class... Args>
requires(!is_remote_value<std::decay_t<Args>> && ...) auto cluster_coordinator::
  schedule(F&& fn, Args&&... args) {
  return remote_value<detail::closure_result_of<F, Args...>>{add(
    detail::erase_closure(std::forward<F>(fn), std::forward<Args>(args)...))};
}

template <class F>
auto cluster_coordinator::schedule_with(closure_options options, F&& fn) {
  return remote_value<detail::closure_result_of<F>>{
    add(detail::erase_closure(std::forward<F>(fn)), std::move(options))};
}

} // namespace troupe

#pragma once

#include "troupe/training/strategies/multi_worker.hpp"

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

class remote_node;

struct remote_strategy_options {
  /// Name of the step functions, which all nodes registered
  /// (step_functions.hpp).
  std::string steps;
  /// Argument of their factory on each node.
  std::string argument{};
  /// Devices of each node, one replica on each.
  std::vector<std::string> devices{"cpu:0"};
  int threads = 1; ///< Threads of each replica's ops.
  communication_options communication{};
  /// Transport of tensors between two nodes.
  transport_kind transport = transport_kind::automatic;
  /// None: `net::credentials_from_environment`.
  std::optional<net::credentials> credentials{};
  /// Timeout of the wait of the nodes for each other at the start.
  std::chrono::milliseconds start_timeout{60'000};
  /// Timeout of the start, and of each run and call in total. A node limits it
  /// to ten minutes.
  std::chrono::milliseconds request_timeout{600'000};
  /// Timeout of the wait for the nodes in the destructor.
  std::chrono::milliseconds shutdown_timeout{5000};
  std::chrono::milliseconds heartbeat_interval{100};
  /// A node that sends nothing for this long is considered lost.
  std::chrono::milliseconds heartbeat_timeout{1000};
};

namespace detail {

template <class>
inline constexpr bool code_can_be_sent = false;

template <class T>
concept is_name = std::convertible_to<const T&, std::string_view>;

} // namespace detail

/// Replicas on nodes, for a program that is not a worker itself: it spawns
/// workers on the nodes, runs functions on them by name, and receives the
/// results. The nodes are workers of one job, in the order given: replica i of
/// node n is replica n * devices + i. All results are bitwise equal to those of
/// multi_worker_mirrored_strategy.
///
/// If a node dies or does not respond, or a function throws, the active call
/// fails with a `job_error` that names the node, the function and its number.
/// The strategy then releases all nodes, and every later call throws
/// `job_error` (cancelled).
class remote_strategy {
public:
  /// Spawns a worker on each node. Returns when all have joined and constructed
  /// their step functions.
  /// @param local_runtime outlives the strategy.
  /// @param nodes "host:port" of each; the nodes connect to each other by these
  ///             addresses too.
  /// @errors throws std::invalid_argument for invalid options; what
  ///         `net::credentials_from_environment` throws, if it is called;
  ///         `job_error` that names a node which is unreachable, rejects the
  ///         request (the error lists the registered names), or whose factory
  ///         threw.
  remote_strategy(runtime& local_runtime, const std::vector<std::string>& nodes,
                  const remote_strategy_options& options);

  /// Sends all workers a request to leave the job, and waits at most
  /// `shutdown_timeout` for their replies.
  ~remote_strategy();
  remote_strategy(const remote_strategy&) = delete;
  remote_strategy& operator=(const remote_strategy&) = delete;

  std::uint32_t num_replicas_in_sync() const;
  std::uint32_t workers() const; ///< Equal to the number of nodes.
  /// Transport of tensors between two nodes: "shm", "tcp", "tls" or "none".
  const std::string& transport() const;

  /// Returns a node, for spawning other roles.
  /// @errors throws std::logic_error if there is no such node.
  remote_node& node(std::size_t worker);

  /// Calls the `step_functions::run` function of a name for each replica, on
  /// all nodes concurrently, and waits.
  /// @param inputs of each replica by id, or one list for all replicas.
  /// @returns the results of each replica, by id.
  /// @errors throws std::invalid_argument for a name that is not registered
  ///         (the error lists the registered ones) and for a wrong number of
  ///         inputs; std::logic_error while another thread runs a function;
  ///         `job_error`.
  /// @cost inputs and results are sent once, at most 1 GiB for each node.
  per_replica<tensors> run(std::string_view step,
                           const per_replica<tensors>& inputs);
  per_replica<tensors> run(std::string_view step, const tensors& inputs = {});

  /// Calls the `step_functions::call` function of a name once on each node.
  /// @returns the results by node.
  /// @errors as `run`.
  std::vector<tensors> call(std::string_view function,
                            const tensors& inputs = {});

  /// Rejects function objects: code is not sent to nodes.
  template <class F, class... Args>
  requires(!detail::is_name<F>) per_replica<tensors> run(const F&,
                                                         const Args&...) {
    static_assert(detail::code_can_be_sent<F>,
                  "code is not sent to nodes: register the function there with "
                  "register_steps, and run it by its name");
    return {};
  }

  /// Reduces one value per replica in this process: elementwise, in the order
  /// of the canonical tree. The result is bitwise equal to that of
  /// `strategy::reduce`.
  tensor reduce(reduce_op op, const per_replica<tensor>& x) const;

  /// Reduces each tensor of the replicas' results over the replicas.
  /// @errors throws std::logic_error if replicas returned different numbers of
  ///         tensors.
  tensors reduce(reduce_op op, const per_replica<tensors>& values) const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

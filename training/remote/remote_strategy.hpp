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
  /// Name under which all nodes have registered the step functions
  /// (step_functions.hpp).
  std::string steps;
  /// Argument that each node passes to the factory of the step functions.
  std::string argument{};
  /// Names of the devices, equal on all nodes. Each device has one replica.
  std::vector<std::string> devices{"cpu:0"};
  int threads = 1; ///< Threads of each replica's ops.
  communication_options communication{};
  /// Transport of tensors between two nodes.
  transport_kind transport = transport_kind::automatic;
  net::connection_options connection{};
  /// Address "host:port" at which the strategy listens for nodes that announce
  /// themselves as spares (`node_server_options::join`). Port 0: any free port.
  /// Empty: it does not listen. The credentials are those of `connection`, and
  /// are required beyond loopback.
  std::string listen{};
  /// Each worker waits at most this long for the other workers to join the job.
  std::chrono::milliseconds start_timeout{60'000};
  /// Timeout of the constructor's requests that start the workers, of each
  /// `run` and of each `call`. A node shortens a timeout above ten minutes to
  /// ten minutes.
  std::chrono::milliseconds request_timeout{600'000};
  /// The destructor waits at most this long for the nodes.
  std::chrono::milliseconds shutdown_timeout{5000};
};

namespace detail {

template <class>
inline constexpr bool code_can_be_sent = false;

template <class T>
concept is_name = std::convertible_to<const T&, std::string_view>;

} // namespace detail

/// Runs replicas on nodes for a program that is not a worker itself. The
/// strategy spawns a worker on each node, calls functions of the workers by
/// name, and receives the results. All workers belong to one job, in the order
/// of the nodes. At the start, replica i of node n has the number n * d + i,
/// where each node has d devices. All results are bitwise equal to the results
/// of `multi_worker_mirrored_strategy`.
///
/// If a node dies or does not respond, the other nodes take over its replicas.
/// They complete the active call with the bits of an undisturbed job. Another
/// node can take the place of the lost one (`add`). A spare takes it at the
/// beginning of the next `run` or `call` (`remote_strategy_options::listen`).
/// If too few nodes are left, or a step does not end in time, the active call
/// throws a `job_error`. The error names the node, the function and the number
/// of the call. The strategy then releases all nodes, and every later call
/// throws `job_error` (cancelled).
///
/// If a function throws, the call throws a `job_error` (invalid) with its text.
/// A step of `run` is undone on all nodes, and the strategy can be used again.
/// After a `call` it can be used again if the function soon ends on all nodes,
/// with equally many calls of `fit`, `run` and so on. Otherwise it releases all
/// nodes. See docs/nodes.md.
class remote_strategy {
public:
  /// Spawns a worker on each node. Returns when all workers have joined the job
  /// and made their step functions.
  /// @param local_runtime outlives the strategy.
  /// @param nodes addresses "host:port". The nodes use these addresses to
  ///        connect to each other too.
  /// @errors throws std::invalid_argument for invalid options. Without
  ///         `credentials`, throws what `net::credentials_from_environment`
  ///         throws. Throws `job_error` if a node is unreachable or rejects the
  ///         request, or if its factory throws. The error names the node; the
  ///         error of a rejection also lists the registered names.
  remote_strategy(runtime& local_runtime, const std::vector<std::string>& nodes,
                  const remote_strategy_options& options);

  /// Sends all workers a request to leave the job, and waits at most
  /// `shutdown_timeout` for their replies.
  ~remote_strategy();
  remote_strategy(const remote_strategy&) = delete;
  remote_strategy& operator=(const remote_strategy&) = delete;

  /// Replicas of all nodes. A loss does not change the number.
  std::uint32_t num_replicas_in_sync() const;
  std::uint32_t workers() const; ///< Nodes that are not lost.
  /// Transport of tensors between two nodes: "shm", "tcp", "tls" or "none".
  const std::string& transport() const;

  /// Returns a node, on which the caller can spawn other roles. If the node is
  /// lost, the functions of the result throw. The reference is valid until
  /// `add` replaces the node.
  /// @errors throws std::logic_error if there is no such node.
  remote_node& node(std::size_t worker);

  /// Calls the function with the name `step` in `step_functions::run` once for
  /// each replica, on all nodes concurrently, and waits for all results.
  /// @param inputs the inputs of each replica by id, or one list that all
  ///        replicas get.
  /// @returns the results of each replica, by id.
  /// @errors throws std::invalid_argument for a wrong number of inputs, and for
  ///         a name that is not registered. The error for a name lists the
  ///         registered names. Throws std::logic_error while another thread
  ///         runs a function. Throws `job_error` if the function or the job
  ///         fails. Throws it also if a result of more than 1 MiB is lost with
  ///         its node; then the step is made.
  /// @cost inputs and results are sent once, at most 1 GiB to or from each
  ///       node. If a node is lost, the inputs of its replicas are sent to all
  ///       others. The workers gather the results that take at most 1 MiB.
  per_replica<tensors> run(std::string_view step,
                           const per_replica<tensors>& inputs);
  per_replica<tensors> run(std::string_view step, const tensors& inputs = {});

  /// Calls the function with the name `function` in `step_functions::call` once
  /// on each node.
  /// @returns the results of each node that has responded, in the order of the
  ///          nodes. A node that is lost before it responds has none.
  /// @errors as `run`.
  std::vector<tensors> call(std::string_view function,
                            const tensors& inputs = {});

  /// Adds a node in the place of a lost one. Its worker makes the step
  /// functions, and joins the job between two calls. Then the worker gets the
  /// state of what the factory has made, and its share of the replicas.
  /// @param address "host:port" of a node, perhaps that of the lost one.
  /// @errors throws std::invalid_argument if the address is malformed or
  ///         belongs to a node of the job, and if no node is lost: a job has no
  ///         more processes than at its start. Throws std::logic_error while
  ///         another thread runs a function. Throws `job_error` that names the
  ///         node if it is unreachable, has other step functions, or is
  ///         refused; the job goes on without it.
  /// @cost the others wait for the copy of the state.
  void add(const std::string& address);

  /// Addresses of the nodes that are lost, in the order of the nodes. A loss is
  /// known after the next call.
  std::vector<std::string> lost_nodes() const;

  /// Address at which nodes announce themselves as spares, "host:port". Empty:
  /// the strategy does not listen.
  const std::string& listen_address() const;

  /// Addresses of the spares that wait, in the order in which they are used. A
  /// node that has a worker in the job is no spare.
  std::vector<std::string> spares() const;

  /// Rejects a function object at compile time, because code is not sent to
  /// nodes.
  template <class F, class... Args>
  requires(!detail::is_name<F>) per_replica<tensors> run(const F&,
                                                         const Args&...) {
    static_assert(detail::code_can_be_sent<F>,
                  "code is not sent to nodes: register the function there with "
                  "register_steps, and run it by its name");
    return {};
  }

  /// Reduces one value per replica elementwise, in this process and in the
  /// order of the canonical tree. The result is bitwise equal to the result of
  /// `strategy::reduce`.
  tensor reduce(reduce_op op, const per_replica<tensor>& x) const;

  /// Reduces lists of tensors: tensor i of the result is reduced from tensor i
  /// of each replica.
  /// @errors throws std::logic_error if replicas returned different numbers of
  ///         tensors.
  tensors reduce(reduce_op op, const per_replica<tensors>& values) const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

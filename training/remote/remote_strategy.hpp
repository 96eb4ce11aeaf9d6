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
  /// What the replicas can do: the name that all nodes registered it under
  /// (registered_steps.hpp) ...
  std::string steps;
  /// ... and what is said to its factory on each.
  std::string argument{};
  /// Of each node, one replica on each device.
  std::vector<std::string> devices{"cpu:0"};
  int threads = 1; ///< Of each replica's ops.
  communication_options communication{};
  /// What tensors cross between two nodes.
  transport_kind transport = transport_kind::automatic;
  /// None given: `net::credentials_from_environment`.
  std::optional<net::credentials> credentials{};
  /// Longest that the nodes wait for each other at the start.
  std::chrono::milliseconds patience{60'000};
  /// Longest that the start, a run or a call may take in all; a node keeps
  /// nobody waiting for more than ten minutes.
  std::chrono::milliseconds answers{600'000};
  /// Longest that the end waits for the nodes.
  std::chrono::milliseconds farewell{5000};
  std::chrono::milliseconds heartbeat{100};
  /// Longest silence of a node before it is given up.
  std::chrono::milliseconds suspect{1000};
};

namespace detail {

template <class>
inline constexpr bool is_sent_nowhere = false;

template <class T>
concept is_name = std::convertible_to<const T&, std::string_view>;

} // namespace detail

/// Replicas on nodes, for a program that is none of the workers: it has them
/// spawned, tells them by name what to do, and gets what they give. The nodes
/// are workers to each other, in the order given: replica i of node n is
/// replica n * devices + i, and all is as in multi_worker_mirrored_strategy, to
/// the last bit.
///
/// A node that dies or falls silent, and a function that throws, end what runs
/// with a `failure` that names the node, the function and its number. All nodes
/// are left then, and every later call throws `failure` (cancelled).
class remote_strategy {
public:
  /// Spawns a worker on each node; returns when all have joined and have made
  /// their steps.
  /// @param on    outlives it.
  /// @param nodes "host:port" of each, by which the nodes find each other too.
  /// @errors throws std::invalid_argument for options that cannot be; what
  ///         `net::credentials_from_environment` throws, if asked; `failure`
  ///         that names a node which is not there, refuses (the error lists
  ///         what it has), or whose factory threw.
  remote_strategy(runtime& on, const std::vector<std::string>& nodes,
                  const remote_strategy_options& options);

  /// Tells all to leave, and waits for them, no longer than the farewell.
  ~remote_strategy();
  remote_strategy(const remote_strategy&) = delete;
  remote_strategy& operator=(const remote_strategy&) = delete;

  std::uint32_t num_replicas_in_sync() const;
  std::uint32_t workers() const; ///< Nodes.
  /// What tensors cross between two nodes: "shm", "tcp", "tls" or "none".
  const std::string& transport() const;

  /// A node, for roles of one's own.
  /// @errors throws std::logic_error for one that there is not.
  remote_node& node(std::size_t worker);

  /// Calls a `step_functions::run` of the name for each replica, on all nodes
  /// at once, and waits.
  /// @param inputs of each replica, by id, or for all the same.
  /// @returns what each replica gave, by id.
  /// @errors throws std::invalid_argument for a name that is not registered
  ///         (the sentence lists those that are) and for inputs of other than
  ///         all replicas; std::logic_error while another thread runs
  ///         something; `failure`.
  /// @cost   inputs and results cross once, at most 1 GiB for each node.
  per_replica<tensors> run(std::string_view step,
                           const per_replica<tensors>& inputs);
  per_replica<tensors> run(std::string_view step, const tensors& inputs = {});

  /// Calls a `step_functions::call` of the name once on each node.
  /// @returns what each gave, by node. @errors as `run`.
  std::vector<tensors> call(std::string_view what, const tensors& inputs = {});

  /// Functions do not travel.
  template <class F, class... Args>
  requires(!detail::is_name<F>) per_replica<tensors> run(const F&,
                                                         const Args&...) {
    static_assert(detail::is_sent_nowhere<F>,
                  "no code travels to nodes: register the function there, by "
                  "register_steps, and run it by its name");
    return {};
  }

  /// One value from one per replica, here: elementwise, in the order of the
  /// canonical tree, so with the bits that `strategy::reduce` gives.
  tensor reduce(reduce_op op, const per_replica<tensor>& x) const;

  /// Of each of the tensors that every replica gave.
  /// @errors throws std::logic_error if some gave more than others.
  tensors reduce(reduce_op op, const per_replica<tensors>& x) const;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

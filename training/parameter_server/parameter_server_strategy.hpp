#pragma once

#include "troupe/actors/node/client_options.hpp"
#include "troupe/strategies/parameter_server/gradient_staleness.hpp"
#include "troupe/strategies/parameter_server/partitioner.hpp"
#include "troupe/strategies/parameter_server/server_placement.hpp"
#include "troupe/training/parameter_server/server_variable.hpp"
#include "troupe/training/parameter_server/table_options.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

class runtime;
class parameter_servers;

namespace injection {
class process_fault_injector;
}

/// Options of a `parameter_server_strategy`.
struct parameter_server_options {
  /// Number of parameter servers in this process. Not used if there are
  /// `nodes`.
  std::uint32_t servers = 1;
  std::uint32_t workers = 1; ///< Number of workers of a coordinator.
  /// Divides variables among the servers. Empty: no variable is divided.
  parameter_server::partitioner partitioner{};
  parameter_server::placement_policy placement =
    parameter_server::placement_policy::round_robin;
  /// Limit of the bytes of values and slots on each server. What would exceed
  /// it is an error of the function or closure that asks for it, and the server
  /// goes on. Closures that end at the same time can exceed it, because each is
  /// checked by itself. With copies, requests that have not reached all of them
  /// are not counted, so they can exceed it too. Zero: no limit.
  std::uint64_t max_server_bytes = 0;
  /// Maximum wait for the answer of a server.
  std::chrono::milliseconds timeout{60'000};
  /// Addresses of nodes, "host:port", each of which gets one server: `troupe
  /// node`, or a program that has called `register_parameter_server`. Empty:
  /// the servers are threads of this process.
  std::vector<std::string> nodes{};
  client_options node_connection{.window = 4096}; ///< To each of the nodes.
  int threads = 1;        ///< Threads of each worker's ops.
  std::uint64_t seed = 0; ///< Of the random ops in closures.
  /// Copies of each server, on different nodes. Above 1: nothing that a server
  /// has acknowledged is lost with its node. Give at least as many nodes.
  std::uint32_t copies = 1;
  /// If it is above 0 and servers have copies, the strategy tries at this
  /// interval to connect to a process at the address of a lost one, and adds it
  /// as `add_server` does: a process that was started again gets copies.
  std::chrono::milliseconds reconnect_interval{0};
};

/// Lets other processes start a parameter server in this process, if it is a
/// node (node_server.hpp).
/// @errors throws std::logic_error if it was called before for this runtime.
/// @param to_servers options of its connections to other servers, if they have
///        copies of each other.
/// @param faults for tests: gets the answers of the servers. Null: no faults.
void register_parameter_server(
  runtime& actors, const client_options& to_servers = {.window = 4096},
  const std::shared_ptr<injection::process_fault_injector>& faults = {});

/// What a parameter server holds.
struct server_status {
  std::uint64_t parts = 0;   ///< Parts of variables.
  std::uint64_t bytes = 0;   ///< Bytes of their values and slots.
  std::uint64_t rows = 0;    ///< Rows of tables that it keeps.
  std::uint64_t updates = 0; ///< Changes that took place.
  std::uint64_t waiting = 0; ///< Executions of closures whose changes wait.
  /// Since this copy of the server serves.
  parameter_server::gradient_staleness staleness{};
};

/// The copies of parameter servers.
struct server_copies {
  /// Copies that have all that was acknowledged, the one that serves included:
  /// of the server that has the fewest.
  std::uint32_t in_sync = 0;
  std::uint64_t lost_nodes = 0; ///< So far.
};

/// Keeps variables on parameter servers. Workers read them, and change them by
/// closures that a `cluster_coordinator` schedules. Servers are threads of this
/// process or run on nodes. A handle:
/// copies refer to the same servers.
class parameter_server_strategy {
public:
  /// Starts the servers. The runtime must outlive this object, its copies and
  /// its variables.
  /// @errors throws std::invalid_argument that names the option if there is no
  ///         server or worker, fewer than one thread, the timeout is not above
  ///         0, or the interval is negative or above 24 hours. For nodes,
  ///         throws what `remote_node` and its `spawn` throw.
  explicit parameter_server_strategy(
    runtime& actors, const parameter_server_options& options = {});

  /// Makes a variable on the servers.
  /// @param name must be new.
  /// @param initial float32, float64, int32 or int64.
  /// @errors throws std::invalid_argument if the name exists, for another
  ///         dtype, and if the partitioner returns numbers that do not fit.
  ///         Throws std::logic_error in a closure, and `job_error` if a server
  ///         does not answer.
  server_variable make_variable(const std::string& name,
                                const tensor& initial) const;

  /// Makes a variable, each part by a call of its own. So the whole variable
  /// need not fit into the memory of this process.
  /// @param initial returns the values of some rows; called once for each part.
  /// @errors throws what the function above throws, std::invalid_argument if
  ///         `initial` returns another shape or dtype, and what `initial`
  ///         throws. Then the parts are removed, and the name is free, unless a
  ///         server does not answer.
  server_variable make_variable(
    const std::string& name, const tensor_spec& spec,
    const std::function<tensor(parameter_server::row_range)>& initial) const;

  /// Makes a table: a float32 variable, [rows, row_elements], of which the
  /// servers keep only the rows that were changed. Any other row has its
  /// initial values. So a table can be larger than the memory of the servers.
  /// It is divided as the partitioner says, or if there is none, into one part
  /// for each server. Its gradients are sparse, and each part counts all of
  /// them as steps of the optimizer, also those that lack its rows.
  /// @errors throws what the functions above throw, and std::invalid_argument
  ///         that names the option if there is no row or no element.
  /// @cost memory of a row that is kept: its elements and slots, and about 5
  ///       bytes; 4 bytes more with `max_idle_changes`.
  server_variable make_table(const std::string& name,
                             const table_options& options) const;

  /// Returns a variable or table by name.
  /// @errors throws std::invalid_argument that lists all names if there is no
  ///         such variable; std::logic_error in a closure; `job_error` if a
  ///         server does not answer.
  server_variable variable(const std::string& name) const;

  /// Removes a variable or table: the servers free its values and the slots of
  /// optimizers, and its name is free. Other uses of a handle throw. What
  /// closures have changed of it and is not decided never takes place, and a
  /// closure that uses it from then on fails.
  /// @errors throws std::logic_error in a closure, in a worker on a node, if
  /// the
  ///         variable belongs to another strategy, and if it was removed
  ///         before. Throws `job_error` if a server does not answer; then the
  ///         name stays taken, and the call can be repeated.
  void remove_variable(const server_variable& variable) const;

  /// Name of this strategy in errors, which no other one has: the incarnation
  /// of its process and a number.
  const std::string& name() const;

  /// Adds a node that can have copies of servers, for example in place of one
  /// that was lost. Servers that lack a copy get one there, while they serve.
  /// @param address "host:port"
  /// @errors throws std::logic_error if the option `copies` is 1, or in a
  /// worker
  ///         on a node; std::invalid_argument if the node is a server;
  ///         `job_error` if its process is or was a server, and what
  ///         `remote_node` and its `spawn` throw.
  void add_server(const std::string& address) const;

  /// Waits until each server has all its copies, or as many as there are nodes,
  /// and each copy has what was acknowledged. Then any node can be lost.
  /// @returns false if it is not so after the timeout.
  bool wait_for_copies(std::chrono::milliseconds timeout) const;

  /// Returns how many copies the servers have, and how many nodes were lost.
  /// @errors throws std::logic_error as `add_server` does.
  server_copies copies() const;

  const parameter_server_options& options() const;

  /// Returns what each server holds.
  /// @errors throws `job_error` if a server does not answer.
  std::vector<server_status> status() const;

  /// For the library's own use.
  explicit parameter_server_strategy(std::shared_ptr<parameter_servers> x)
    : servers_{std::move(x)} {}
  const std::shared_ptr<parameter_servers>& servers() const { return servers_; }

private:
  std::shared_ptr<parameter_servers> servers_;
};

} // namespace troupe

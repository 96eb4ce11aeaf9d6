#pragma once

#include "troupe/actors/protocol/closure.hpp"
#include "troupe/actors/protocol/shard_router_actor.hpp"
#include "troupe/strategies/parameter_server/consistency.hpp"
#include "troupe/strategies/parameter_server/row_sharding.hpp"
#include "troupe/strategies/parameter_server/table_part.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_system.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct host_link;
class training_layout;

/// The parameter servers of a strategy, and reads and changes of their parts.
/// In a closure these go through the worker, else through the router.
class parameter_servers
  : public std::enable_shared_from_this<parameter_servers> {
public:
  parameter_servers(runtime& actors, const parameter_server_options& options);
  /// Uses the servers that another process has made on nodes.
  /// @param job name that they have there.
  /// @param shards number of servers. The nodes are those that can have copies
  ///        of them.
  parameter_servers(runtime& actors, const parameter_server_options& options,
                    const std::string& job, std::uint32_t shards);
  ~parameter_servers();
  parameter_servers(const parameter_servers&) = delete;
  parameter_servers& operator=(const parameter_servers&) = delete;

  /// A part of a variable.
  using address = closure_environment::address;
  using read = closure_environment::read;
  /// A change of a part.
  struct change_of_part {
    address to;
    parameter_server::part_change change;
  };

  server_variable make_variable(
    const std::string& name, const tensor_spec& spec,
    const std::function<tensor(parameter_server::row_range)>& initial);

  /// @param dims of the table, [n, d...].
  server_variable make_table(const std::string& name, const shape& dims,
                             const parameter_server::table_rules& rules);

  /// Returns a variable that the servers have.
  server_variable variable(const std::string& name);

  /// Removes variables of this process, and optimizers, and waits for the
  /// servers. Then the names are free.
  /// @errors as `parameter_server_strategy::remove_variable`
  void remove(std::span<const server_variable> variables,
              std::vector<std::uint32_t> optimizers,
              std::chrono::milliseconds timeout);

  /// Reads parts of a variable.
  /// @errors throws std::logic_error that names the variable if it was removed,
  ///         and in a closure of other servers, whose parts can have the same
  ///         numbers.
  std::vector<tensor> pull(const server_variable::impl& of,
                           const std::vector<read>& parts) const;
  /// Changes parts of a variable. @errors as `pull`.
  void change(const server_variable::impl& of,
              std::vector<change_of_part>&& changes) const;
  /// Returns a slot of an optimizer for a part of a variable. If it has no such
  /// slot: the number of its steps, a scalar int64.
  /// @errors throws std::logic_error in a closure, and if the variable was
  ///         removed.
  tensor pull_optimizer(const server_variable::impl& of, const address& part,
                        std::uint32_t optimizer, std::uint32_t slot) const;
  std::vector<server_status> status() const;
  /// Makes an optimizer on all servers. Returns its number, which counts those
  /// that this process has made before.
  std::uint32_t make_optimizer(const update_rule& rule);
  /// Makes the optimizer of a model, or uses that of another process.
  /// @param values variable of the model. The number of the optimizer is that
  ///        of its first part, so each process knows it.
  std::uint32_t make_optimizer(const update_rule& rule,
                               const server_variable& values);

  /// Begins a training at all servers, in place of the one before.
  /// @param rules by variable of the layout.
  /// @param optimizer number of an optimizer, which all variables get.
  /// @returns its number.
  /// @errors throws std::logic_error in a closure, in a worker on a node, and
  ///         for variables of another strategy. Throws `job_error`;
  ///         `ec::invalid` if a server rejects the training. Then other servers
  ///         may have begun it, and a later training takes its place.
  std::uint64_t
  begin_training(const training_layout& layout,
                 std::span<const parameter_server::consistency> rules,
                 std::uint32_t replicas, std::uint32_t optimizer);

  /// Ends the training at all servers that can be reached. Its replicas get
  /// errors with `ec::superseded`.
  /// @param optimizer number of an optimizer.
  /// @param timeout   of the request to each server.
  /// @errors throws `job_error`.
  void end_training(std::uint32_t optimizer, std::chrono::milliseconds timeout);

  /// Adds a node that can have copies of servers.
  /// @errors as `parameter_server_strategy::add_server`.
  void add_server(const std::string& address);
  /// @returns false if not all copies are in sync after the timeout.
  bool wait_for_copies(std::chrono::milliseconds timeout) const;
  /// @errors as `parameter_server_strategy::copies`.
  server_copies copies() const;
  /// Addresses of the nodes that have, or can have, servers.
  std::vector<std::string> addresses() const;

  /// Makes room for a coordinator. There is one at a time, because the shards
  /// know closures by their number.
  /// @returns its life and the number of its first closure.
  /// @errors throws std::logic_error while there is another one.
  std::pair<std::uint64_t, std::uint64_t> begin_coordinator();
  /// @param closures that the coordinator has scheduled.
  void end_coordinator(std::uint64_t closures);

  caf::actor_system& system() const { return system_; }
  runtime& local_runtime() const { return runtime_; }
  const parameter_server_options& options() const { return options_; }
  /// Passes requests on to the servers.
  const shard_router_actor& router() const { return router_; }
  /// Name of these servers, which no others have.
  const std::string& job() const { return job_; }
  /// Address of the supervisor of copies (copy_supervisor.hpp). Null: another
  /// process has made the servers.
  caf::actor_addr supervisor() const;

private:
  parameter_servers(runtime& actors, const parameter_server_options& options,
                    const std::string& job, std::uint32_t shards,
                    bool is_owner);
  /// Returns the answer of a server to a request.
  /// @param doing what the request is for. Empty: the error does not say it.
  /// @errors throws `job_error`.
  template <class Answer, class... Message>
  Answer ask_server(std::uint32_t shard, std::chrono::milliseconds timeout,
                    const std::string& doing, Message&&... message) const;
  std::uint64_t take_training_number();
  void supervise(std::vector<host_link> hosts);
  void check_has_supervisor(const std::string& call) const;

  /// Takes the name of a new variable, and places its parts.
  std::shared_ptr<server_variable::impl>
  place(const std::string& name, const tensor_spec& spec,
        const parameter_server::row_sharding& sharding);

  /// Makes the parts of a new variable.
  /// @param make called with the index of each part. If it throws, the variable
  ///        is removed.
  template <class F>
  server_variable make_parts(const std::shared_ptr<server_variable::impl>& of,
                             const F& make);
  /// Removes parts from their servers.
  /// @errors throws `job_error` if a server does not answer in time.
  void remove_parts(const std::map<std::uint32_t, removal>& by_shard,
                    std::chrono::milliseconds timeout) const;
  /// True if the variable has its name, which a later one may have got.
  bool has_name(const server_variable::impl& variable);
  /// Frees the name and the place of a variable whose parts are removed.
  void forget(const server_variable::impl& variable);
  /// Makes an optimizer on all servers.
  void make_optimizer(const update_rule& rule, std::uint32_t number) const;
  /// Checks that a variable can be read or changed here.
  void check_use(const server_variable::impl& variable) const;

  /// Makes a part of a variable on its server.
  void initialize(const server_variable::impl& variable, std::uint32_t part,
                  const tensor& values);

  const parameter_server_options options_;
  runtime& runtime_;
  const std::string job_; ///< Name of the servers on their nodes.
  caf::actor_system& system_;
  shard_router_actor router_;
  struct ownership;
  std::unique_ptr<ownership> ownership_; ///< Null: another process has made
                                         ///< the servers.

  std::mutex lock_; // guards all below
  parameter_server::server_placement placement_;
  /// The variables by name: the number of the first part of each.
  std::map<std::string, std::uint64_t> names_;
  std::uint64_t next_part_ = 0;
  std::uint32_t optimizers_ = 0;
  std::uint64_t trainings_ = 0;
  bool has_coordinator_ = false;
  std::uint64_t coordinators_ = 0; ///< So far.
  std::uint64_t closures_ = 0;     ///< That they have scheduled.
};

struct server_variable::impl {
  std::shared_ptr<parameter_servers> servers;
  std::string name;
  tensor_spec spec;
  bool is_table = false;
  parameter_server::row_sharding sharding{1, 1};
  std::vector<std::uint32_t> shards; ///< By part: index of its server.
  std::vector<parameter_servers::address> parts;
  /// This process has removed the variable.
  mutable std::atomic<bool> is_removed{false};
};

/// Ends actors, and waits until they have terminated.
/// @returns false if some have not after the timeout.
bool end_actors(caf::actor_system& system, std::vector<caf::actor> actors,
                std::chrono::milliseconds timeout);

} // namespace troupe

#pragma once

#include "troupe/actors/node/remote_node.hpp"
#include "troupe/training/remote/remote_strategy.hpp"
#include "troupe/training/remote/spare_pool.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct remote_strategy::impl {
  /// A node, and the worker that runs on it.
  struct node_entry {
    std::string address;
    std::unique_ptr<remote_node> node;
    worker_actor worker{}; ///< Null: it was lost.
    /// Replicas that the worker hosts, as it has said last.
    std::vector<std::uint32_t> replica_ids{};
    std::string loss{}; ///< Why it was lost. Empty: it was not.
  };

  impl(runtime& local_runtime, const std::vector<std::string>& addresses,
       const remote_strategy_options& options);
  ~impl();

  void check(const std::vector<std::string>& addresses) const;
  void spawn();
  void join();
  std::chrono::milliseconds loss_timeout() const;
  std::unique_lock<std::mutex> lock_exclusively();

  /// Sends a request to all workers.
  /// @returns the replies by worker; at least one is done. The others are lost.
  /// @errors throws `job_error` if a worker itself fails, or the job does.
  std::vector<worker_reply> run_on_all(worker_request&& request);
  per_replica<tensors> run(worker_request&& request);
  void add(const std::string& address);
  /// Adds spares in the places of the nodes that are known to be lost. Tries
  /// each process at most once. A spare that cannot be added is refused, or
  /// disconnected if the reason may pass.
  /// @errors throws `job_error` if the job fails.
  void use_spares();
  std::size_t nodes_left() const;
  void throw_if_failed() const;
  void check_function(const std::vector<std::string>& known,
                      std::string_view name, const char* verb) const;
  /// Divides the flat list of a worker's result tensors.
  std::vector<tensors> split(std::size_t worker, const worker_reply& reply,
                             std::size_t parts);

  runtime& local_runtime;
  caf::actor_system& system;
  const remote_strategy_options options;
  const std::string job;         ///< Name of the job of the workers.
  std::vector<node_entry> nodes; ///< By number of the worker.
  std::uint32_t replicas = 0;    ///< Replicas of the job.
  worker_info first_info;        ///< Info of worker 0 at the start.
  /// Number of the next request to the workers.
  std::uint64_t next_request = 0;
  /// Error that made the strategy unusable. Empty: the strategy is usable.
  std::string failure_text;
  std::mutex run_mutex;
  spare_pool spares;

private:
  worker_arguments arguments_of(std::size_t worker, bool joins) const;
  client_options connection_options() const;
  worker_list workers() const;
  std::string name_of(std::size_t worker) const;
  /// Tells `spares` which nodes have a worker.
  void update_members();
  void note_replies(const std::vector<worker_reply>& replies);
  void note_loss(std::size_t worker, const worker_status& status);
  void note_place(std::size_t worker, const worker_status& status);
  void check_sizes(const worker_request& request) const;
  worker_failure cause_of(const std::vector<worker_reply>& replies) const;
  static std::string activity_of(const worker_request& request);
  /// Adds the results of replicas whose workers were lost.
  void fetch_lost_results(std::uint64_t number, const std::string& activity,
                          std::vector<std::optional<tensors>>& found);
  void take_results(std::size_t worker, const worker_reply& reply,
                    std::vector<std::optional<tensors>>& found);
  std::size_t free_number(const std::string& address);
  void admit(std::size_t number, node_entry&& added, std::uint64_t incarnation);
  job_error error_of(const worker_failure& cause,
                     const std::string& activity) const;
  [[noreturn]] void fail(const worker_failure& cause,
                         const std::string& activity);
};

} // namespace troupe

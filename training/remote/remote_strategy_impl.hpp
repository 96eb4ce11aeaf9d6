#pragma once

#include "troupe/actors/node/remote_node.hpp"
#include "troupe/training/remote/remote_strategy.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <mutex>

namespace troupe {

struct remote_strategy::impl {
  impl(runtime& local_runtime, const std::vector<std::string>& nodes,
       const remote_strategy_options& options);
  ~impl();

  void check() const;
  void spawn(runtime& local_runtime);
  void join();
  std::chrono::milliseconds loss_timeout() const;
  std::unique_lock<std::mutex> lock_exclusively();
  worker_request make_request(std::string_view name,
                              const tensors& inputs) const;
  std::vector<worker_reply> run_on_all(worker_request&& request);
  per_replica<tensors> run(worker_request&& request);
  std::vector<tensors> split_by_replica(std::size_t worker,
                                        const worker_reply& reply,
                                        std::size_t replicas);
  [[noreturn]] void fail(const worker_failure& cause,
                         const std::string& activity);
  void throw_if_failed() const;
  void check_function(const std::vector<std::string>& known,
                      std::string_view name, const char* verb) const;

  caf::actor_system& system;
  const std::vector<std::string> addresses;
  const remote_strategy_options options;
  std::vector<std::unique_ptr<remote_node>> nodes;
  std::vector<worker_actor> workers;
  std::vector<worker_info> worker_infos;
  /// Number of the next request to the workers.
  std::uint64_t next_request = 0;
  /// Error that made the strategy unusable. Empty: the strategy is usable.
  std::string failure_text;
  std::mutex run_mutex;
};

} // namespace troupe

#pragma once

#include "troupe/actors/node/remote_node.hpp"
#include "troupe/training/remote/remote_strategy.hpp"
#include "troupe/training/remote/worker_client.hpp"

#include <mutex>

namespace troupe {

struct remote_strategy::impl {
  impl(runtime& on, const std::vector<std::string>& nodes,
       const remote_strategy_options& options);
  ~impl();

  void check() const;
  void spawn(runtime& on);
  void join();
  std::unique_lock<std::mutex> enter();
  worker_task same_for_all(std::string_view name, const tensors& inputs) const;
  std::vector<worker_answer> tell_all(worker_task&& x);
  per_replica<tensors> run(worker_task&& x);
  std::vector<tensors> cut(std::size_t worker, const worker_answer& x,
                           std::size_t parts);
  [[noreturn]] void give_up(const worker_fault& x, const std::string& during);
  void check_left() const;
  void check_usable(const std::vector<std::string>& known,
                    std::string_view name, const char* verb) const;

  caf::actor_system& system;
  const std::vector<std::string> addresses;
  const remote_strategy_options options;
  std::vector<std::unique_ptr<remote_node>> nodes;
  std::vector<worker_actor> workers;
  std::vector<worker_seat> seats;
  std::uint64_t next = 0; ///< Number of the next request to the workers.
  std::string broken; ///< Why the strategy is unusable. Empty: it is usable.
  std::mutex busy;
};

} // namespace troupe

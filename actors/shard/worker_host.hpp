#pragma once

#include "troupe/actors/shard/request_attempt.hpp"
#include "troupe/actors/shard/shard_connections.hpp"
#include "troupe/actors/shard/shard_router_internal_actor.hpp"
#include "troupe/strategies/parameter_server/worker.hpp"

#include <caf/error.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// The pushes and pulls of the replicas of this process in one training. It
/// hosts `parameter_server::worker`, and belongs to a router. Answers that come
/// after its end have no effect.
class worker_host : public std::enable_shared_from_this<worker_host> {
public:
  using push_promise =
    caf::typed_response_promise<parameter_server::push_result>;
  using pull_promise =
    caf::typed_response_promise<parameter_server::pulled, tensors>;

  /// @param client   random number of the router.
  /// @param training number of the training.
  worker_host(shard_router_internal_actor::pointer self,
              shard_connections connections, std::uint64_t client,
              std::uint64_t training);
  ~worker_host();
  worker_host(const worker_host&) = delete;
  worker_host& operator=(const worker_host&) = delete;

  push_promise push(const replica_push& x, const tensors& gradient);
  pull_promise pull(const replica_pull& x, const tensors& rows);
  /// Ends the requests of a replica with `ec::cancelled`. No effect if an
  /// execution after this one has asked for the replica.
  void release(std::uint32_t replica, const coordinator::execution& by);

  void on_view(std::uint32_t shard,
               const parameter_server::shard_primary& view);
  /// Sends again what was not answered. Call it at intervals, and when a server
  /// is connected.
  void on_interval();
  /// All requests fail.
  void fail(const caf::error& why);
  /// True if no request waits for an answer.
  bool is_idle() const { return pushes_.empty() && pulls_.empty(); }

private:
  using push_key = std::pair<std::uint32_t, parameter_server::push_id>;
  using pull_key = std::pair<std::uint32_t, std::uint32_t>; ///< Shard, replica.
  struct open_push {
    push_promise promise;
    request_attempt sent{};
  };
  struct open_pull {
    replica_pull asked;
    tensors rows;
    pull_promise promise;
    request_attempt sent{};
    tensors values{}; ///< Of the answer.
  };
  struct shard {
    request_attempt accepted{};
    request_attempt::time_point last_answer{};
  };

  void perform(parameter_server::worker_reaction&& effects);
  void perform(parameter_server::send_accepted& x);
  void perform(parameter_server::send_push& x);
  void perform(parameter_server::send_pull& x);
  void perform(parameter_server::push_done& x);
  void perform(parameter_server::pull_done& x);
  void perform(parameter_server::worker_error& x);
  void fail(const push_key& which, const caf::error& why);
  void fail(const pull_key& which, const caf::error& why);
  template <class Map>
  void on_error(Map& all, const typename Map::key_type& key,
                std::uint64_t number, const caf::error& why);
  void on_answer(std::uint32_t shard, std::uint64_t number,
                 const parameter_server::serving& answer);
  void on_answer(const push_key& key, std::uint64_t number,
                 const shard_pushed& answer);
  void on_answer(const pull_key& key, std::uint64_t number,
                 const parameter_server::pulled& answer, const tensors& values);
  void on_sign_of_life(std::uint32_t shard);
  bool can_begin(const request_attempt& x) const;
  std::uint64_t begin(request_attempt& x);
  static bool is_before(const coordinator::execution& a,
                        const coordinator::execution& b);
  caf::error take_over(std::uint32_t replica, const coordinator::execution& by);
  void end_requests(std::uint32_t replica);
  bool has_request_of(std::uint32_t shard) const;

  shard_router_internal_actor::pointer self_;
  shard_connections connections_;
  const std::uint64_t client_;
  const std::uint64_t training_;
  parameter_server::worker machine_;
  std::vector<shard> shards_;
  std::map<push_key, open_push> pushes_;
  std::map<pull_key, open_pull> pulls_;
  /// By replica: the last execution that has asked for it.
  std::map<std::uint32_t, coordinator::execution> executions_;
  std::uint64_t attempts_ = 0;
};

} // namespace troupe

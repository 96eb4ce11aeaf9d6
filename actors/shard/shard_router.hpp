#pragma once

#include "troupe/actors/protocol/shard_router_actor.hpp"
#include "troupe/actors/shard/chief_host.hpp"
#include "troupe/actors/shard/host_connector.hpp"
#include "troupe/actors/shard/worker_host.hpp"

#include <caf/actor_clock.hpp>
#include <caf/error.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/unit.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Spawn arguments of a shard router.
struct shard_router_config {
  std::uint64_t client = 0; ///< Random number.
  std::uint32_t shards = 1;
  std::vector<std::string> addresses; ///< Of servers, to begin with.
  host_connector connect;
  /// Time in which a request is sent again and again.
  std::chrono::milliseconds timeout{60'000};
  /// Of each shard. With one, no other process can take the place of a server.
  std::uint32_t copies = 1;
  /// With one copy: time in which a server must be connected for the first
  /// time.
  std::chrono::milliseconds connect_timeout{5'000};
};

/// State of a shard router: the side of a client of the shards. It sends
/// each request to the primary that it knows, and again when the request is
/// refused, when the connection is lost, and when the views have changed. Each
/// request has a number, so it counts once. The router is connected to all
/// servers of the newest table, each of which tells it the next one.
struct shard_router_state {
  static inline const char* name = "shard router";

  explicit shard_router_state(shard_router_internal_actor::pointer self)
    : self{self} {}
  ~shard_router_state();

  void configure(shard_router_config config);
  /// Sends a request to a shard.
  /// @param operands travel beside the message.
  /// @param begins the training that begins, if one does.
  template <class Answer, class Message>
  caf::typed_response_promise<Answer>
  send(std::uint32_t shard, shard_request_kind kind, const Message& message,
       tensors operands = {},
       std::vector<parameter_server::training> begins = {});
  caf::typed_response_promise<std::uint64_t>
  begin(std::uint32_t shard, const new_training& x,
        const parameter_server::training& what);
  /// The requests of the replicas of a training.
  worker_host& worker_of(std::uint64_t training);
  caf::typed_response_promise<std::uint64_t> lead(const lead_training& x);
  void stop_chief(std::uint64_t training);
  void on(const parameter_server::contributed& x);
  void release(std::uint64_t training, std::uint32_t replica,
               const coordinator::execution& by);
  void on_table(const copy_table& x);
  void on_link(const host_link& x);
  void on_down(const caf::actor_addr& source);
  void on_wake();

private:
  using time_point = caf::actor_clock::time_point;
  /// Reads and other requests are counted apart.
  using request_id = std::pair<bool, std::uint64_t>;
  struct open_request {
    shard_request request;
    tensors operands;
    time_point deadline;
    std::uint64_t sent_to = 0; ///< Zero: it must be sent.
    std::uint64_t attempt = 0;
    int rejections = 0; ///< Attempts that ended with an unknown error.
    std::function<void(const shard_answer&, const tensors&)> deliver;
    std::function<void(caf::error)> fail;
  };
  struct shard {
    std::uint64_t next = 0, next_read = 0;
    bool has_answered = false; ///< A request that is no read.
    std::map<request_id, open_request> open;
  };
  struct connection {
    bool is_connecting = false;
    time_point next_attempt{};
    host_link link; ///< Without host: it is not connected.
    bool was_connected = false;
    bool is_to_follow = false; ///< It was too busy to tell the next table.
  };

  shard_connections connections();
  template <class Fn>
  void for_each_hosted(const Fn& fn);
  void end(const caf::error& why);
  void on_failed_attempt(const host_link& x, const connection& of);
  void add(std::uint32_t shard, open_request&& x);
  void try_send(std::uint32_t shard, const request_id& id);
  void send_all();
  void on_answer(std::uint32_t shard, const request_id& id,
                 std::uint64_t attempt, const shard_answer& answer,
                 const tensors& beside);
  void send_again(std::uint32_t shard, const request_id& id,
                  std::uint64_t attempt);
  const connection* find(std::uint64_t server) const;
  void connect_all();
  void follow(const host_link& link);
  void plan_wake();
  std::string place_text() const;

  shard_router_internal_actor::pointer self;
  shard_router_config config_;
  copy_table table_;
  time_point begin_{};
  std::vector<shard> shards_;
  std::map<std::string, connection> connections_; ///< By address.
  /// By training.
  std::map<std::uint64_t, std::shared_ptr<worker_host>> workers_;
  std::map<std::uint64_t, std::shared_ptr<chief_host>> chiefs_;
  /// By training and replica: `contributed::next_step` of the last report.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> contributed_;
  /// Time of the next message to itself. `max`: none is pending.
  time_point next_wake_ = time_point::max();
};

/// Sends requests to the primaries of shards.
shard_router_internal_actor::behavior_type shard_router(
  shard_router_internal_actor::stateful_pointer<shard_router_state> self,
  shard_router_config config);

} // namespace troupe

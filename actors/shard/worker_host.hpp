#pragma once

#include "troupe/actors/protocol/shard_router_actor.hpp"
#include "troupe/strategies/parameter_server/worker.hpp"

#include <caf/actor_clock.hpp>
#include <caf/error.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The interface of a shard router, and its own messages.
using shard_router_internal_actor = shard_router_actor::extend<
  // A connection to a server.
  caf::reacts_to<host_link>,
  // Looks for requests to send again, and for deadlines.
  caf::reacts_to<atom::wake>>;

/// Maximum wait for the answer of one copy. Then the request is sent again.
inline constexpr std::chrono::milliseconds max_attempt{10'000};

/// Spawn arguments of a worker host.
struct worker_host_config {
  std::uint64_t client = 0; ///< Random number of the router.
  std::uint32_t shards = 1;
  std::uint64_t training = 0; ///< Number.
  /// Returns the host of a server. Null: it is not connected.
  std::function<shard_host_actor(std::uint64_t server)> find;
  std::function<std::string()> place; ///< Names the servers, for an error.
  /// Time after which requests fail if their shard answers nothing.
  std::chrono::milliseconds timeout{60'000};
};

/// The pushes and pulls of the replicas of this process in one training. It
/// hosts `parameter_server::worker`, and belongs to a router. Answers that come
/// after its end have no effect.
class worker_host : public std::enable_shared_from_this<worker_host> {
public:
  using push_promise =
    caf::typed_response_promise<parameter_server::push_result>;
  using pull_promise =
    caf::typed_response_promise<parameter_server::pulled, tensors>;

  worker_host(shard_router_internal_actor::pointer self,
              worker_host_config config);

  push_promise push(const replica_push& x, const tensors& gradient);
  pull_promise pull(const replica_pull& x, const tensors& rows);
  /// Forgets a replica that was moved away. Its requests fail with
  /// `ec::cancelled`.
  void release(std::uint32_t replica);

  void on_view(std::uint32_t shard,
               const parameter_server::shard_primary& view);
  /// Sends again what was not answered. Call it at intervals, and when a server
  /// is connected.
  void on_interval();
  /// All requests fail.
  void fail_all(const caf::error& why);
  /// True if no request waits for an answer.
  bool is_idle() const { return pushes_.empty() && pulls_.empty(); }

private:
  using time_point = caf::actor_clock::time_point;
  using push_key = std::pair<std::uint32_t, parameter_server::push_id>;
  using pull_key = std::pair<std::uint32_t, std::uint32_t>; ///< Shard, replica.
  /// A message that waits for its answer. A later one ends the wait.
  struct attempt {
    std::uint64_t number = 0;
    bool is_open = false;
    time_point since{};
  };
  struct open_push {
    push_promise promise;
    attempt sent{};
  };
  struct open_pull {
    replica_pull asked;
    tensors rows;
    pull_promise promise;
    attempt sent{};
    tensors values{}; ///< Of the answer.
  };
  struct shard {
    attempt accepted{};
    time_point last_answer{};
  };

  void perform(parameter_server::worker_reaction&& effects);
  void perform(parameter_server::send_accepted& x);
  void perform(parameter_server::send_push& x);
  void perform(parameter_server::send_pull& x);
  void perform(parameter_server::push_done& x);
  void perform(parameter_server::pull_done& x);
  void perform(parameter_server::worker_error& x);
  /// @pre no replica reports to the chief through this object.
  [[noreturn]] void perform(parameter_server::send_contributed&);
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
  static bool ends(attempt& x, std::uint64_t number);
  void on_sign_of_life(std::uint32_t shard, bool ignores);
  std::uint64_t begin(attempt& x);
  void end_if_late(attempt& x) const;
  bool has_request_of(std::uint32_t shard) const;

  shard_router_internal_actor::pointer self_;
  worker_host_config config_;
  parameter_server::worker machine_;
  std::vector<shard> shards_;
  std::map<push_key, open_push> pushes_;
  std::map<pull_key, open_pull> pulls_;
  std::uint64_t attempts_ = 0;
};

} // namespace troupe

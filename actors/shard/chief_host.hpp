#pragma once

#include "troupe/actors/shard/request_attempt.hpp"
#include "troupe/actors/shard/shard_connections.hpp"
#include "troupe/actors/shard/shard_router_internal_actor.hpp"
#include "troupe/strategies/parameter_server/step_decisions.hpp"

#include <caf/error.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The chief of a training. It hosts `parameter_server::step_decisions`, and
/// belongs to the router of this process. Answers that come after its end have
/// no effect.
class chief_host : public std::enable_shared_from_this<chief_host> {
public:
  using promise = caf::typed_response_promise<std::uint64_t>;

  /// @param done gets the number of steps that were decided, or an error, when
  ///        this process is not the chief any more.
  chief_host(shard_router_internal_actor::pointer self,
             shard_connections connections, lead_training what, promise done);
  ~chief_host();
  chief_host(const chief_host&) = delete;
  chief_host& operator=(const chief_host&) = delete;

  void on(const parameter_server::contributed& x);
  void on_view(std::uint32_t shard,
               const parameter_server::shard_primary& view);
  /// Sends again what was not answered. Call it at intervals, and when a server
  /// is connected.
  void on_interval();
  /// Ends it. No effect if it has ended.
  void stop();
  void fail(const caf::error& why);
  bool has_ended() const { return has_ended_; }
  std::uint64_t number() const { return what_.chief; }

private:
  using time_point = request_attempt::time_point;
  /// A query or a decision at a shard.
  struct request {
    request_attempt sent{};
    /// When the shard had to answer first. None: it has answered.
    std::optional<time_point> since{};
  };

  void perform(parameter_server::decision_reaction&& effects);
  void perform(const parameter_server::send_decision_query& x);
  void perform(const parameter_server::send_decision& x);
  void perform(const parameter_server::ask_factors& x);
  void perform(const parameter_server::chief_superseded& x);
  void perform(const parameter_server::protocol_error& x);
  void call(const std::function<void()>& fn);
  template <class Answer, class Message>
  void send(std::uint64_t primary, std::uint32_t shard, const Message& message);
  template <class Answer>
  void on_answer(std::uint32_t shard, std::uint64_t number,
                 const Answer& answer);
  void on_error(std::uint32_t shard, std::uint64_t number,
                const caf::error& why);

  shard_router_internal_actor::pointer self_;
  shard_connections connections_;
  lead_training what_;
  parameter_server::step_decisions machine_;
  std::vector<request> shards_;
  std::uint64_t attempts_ = 0;
  std::uint64_t told_steps_ = 0; ///< Argument of the last `on_decided`.
  promise done_;
  bool has_ended_ = false;
};

} // namespace troupe

#pragma once

#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/actor_clock.hpp>
#include <caf/response_promise.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <vector>

namespace troupe {

struct proxy_options {
  /// Longest that a request waits for its answer.
  std::chrono::milliseconds patience{5000};
  /// Requests that may be open at once; one more is `busy`.
  std::size_t window = 256;
  std::uint64_t epoch = 0; ///< Of the membership.
  /// Facts that wait while the link takes no more. Zero: such a fact is refused
  /// as `busy`, which the sender of a one-way message does not hear. Otherwise
  /// none is lost in silence: a fact for which there is no room in the backlog,
  /// or that can never cross, ends the proxy with the reason.
  std::size_t backlog = 0;
  /// Time between two attempts to post the facts that wait.
  std::chrono::milliseconds retry_interval{2};
};

/// What every proxy does, whatever its role.
class proxy_core {
public:
  using time_point = caf::actor_clock::time_point;

  /// Reads an answer and, if it is whole, delivers it.
  using answer_reader = void (*)(caf::response_promise&, net::reader&);

  ~proxy_core();

  void open(std::shared_ptr<net::link> out, const proxy_options& options);

  /// @returns why it did not leave, or none; also if it waits in the backlog.
  caf::error post_fact(net::writer&& x, net::priority how, time_point now);

  /// Whether a fact that does not leave ends the proxy.
  bool must_deliver() const { return options_.backlog > 0; }

  /// Keeps the promise: the answer, the deadline, the link's end or an error
  /// now.
  void post_request(net::writer&& x, net::priority how, time_point now,
                    caf::response_promise promise, answer_reader read);

  /// What cannot cross.
  caf::error refuse(std::string_view type);

  /// @returns what the proxy has to quit with, or none.
  caf::error hear(const net::frame& x);
  caf::error hear(const link_ended& x);

  /// Posts what waits as far as the link takes it, and fails the requests that
  /// have waited for too long.
  void expire(time_point now);

  /// When to call `expire` next; none while nothing is open or waits.
  std::optional<time_point> next_deadline() const;

  std::uint32_t patience_ms() const;

  std::optional<time_point> alarm; ///< Time of the next call of `expire`.

private:
  struct call {
    caf::response_promise promise;
    answer_reader read;
    time_point deadline;
  };
  struct waiting_fact {
    net::priority how;
    std::vector<std::byte> payload;
  };
  caf::error check_size(std::size_t bytes, net::priority how) const;
  bool post(net::frame_kind kind, net::priority how,
            std::vector<std::byte>&& payload);
  caf::error answer(const net::frame& x);
  caf::error leave(const net::frame& x);

  std::shared_ptr<net::link> out_;
  proxy_options options_;
  std::uint64_t last_tag_ = 0;
  std::map<std::uint64_t, call> calls_; ///< By tag, so also by deadline.
  std::deque<waiting_fact> backlog_;    ///< In the order of their posting.
  time_point retry_at_{};               ///< If there is a backlog.
  caf::error end_;                      ///< What open calls end with.
};

} // namespace troupe

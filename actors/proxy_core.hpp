#pragma once

#include "troupe/actors/link_mail.hpp"
#include "troupe/actors/payload.hpp"

#include <caf/actor_clock.hpp>
#include <caf/response_promise.hpp>

#include <chrono>
#include <functional>
#include <map>

namespace troupe {

struct proxy_options {
  /// Longest that a request waits for its answer.
  std::chrono::milliseconds patience{5000};
  /// Requests that may be open at once; one more is `busy`.
  std::size_t window = 256;
  std::uint64_t epoch = 0; ///< Of the membership.
  /// Hears why a message did not leave: a fact's sender does not.
  std::function<void(const caf::error&)> dropped{};
};

/// What every proxy does, whatever its role.
class proxy_core {
public:
  using time_point = caf::actor_clock::time_point;

  /// Reads an answer and, if it is whole, delivers it.
  using answer_reader = void (*)(caf::response_promise&, net::reader&);

  ~proxy_core();

  void open(std::shared_ptr<net::link> out, const proxy_options& options);

  /// @returns why it did not leave, or none.
  caf::error post_fact(net::writer&& x, net::priority how);

  /// Keeps the promise: the answer, the deadline, the link's end or an error
  /// now.
  void post_request(net::writer&& x, net::priority how, time_point now,
                    caf::response_promise promise, answer_reader read);

  /// What cannot cross.
  caf::error refuse(std::string_view type);

  /// @returns what the proxy has to quit with, or none.
  caf::error hear(const net::frame& x);
  caf::error hear(const link_ended& x);

  /// Fails what has waited for too long.
  void expire(time_point now);

  /// When to call `expire` next; none while nothing is open.
  std::optional<time_point> next_deadline() const;

  std::uint32_t patience_ms() const;

  bool ticking = false; ///< Somebody will call `expire`.

private:
  struct call {
    caf::response_promise promise;
    answer_reader read;
    time_point deadline;
  };
  caf::error post(net::frame_kind kind, net::priority how, net::writer&& x);
  caf::error report(caf::error&& x) const;
  caf::error answer(const net::frame& x);
  caf::error leave(const net::frame& x);

  std::shared_ptr<net::link> out_;
  proxy_options options_;
  std::uint64_t last_tag_ = 0;
  std::map<std::uint64_t, call> calls_; ///< By tag, so also by deadline.
  caf::error end_;                      ///< What open calls end with.
};

} // namespace troupe

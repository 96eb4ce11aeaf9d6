#pragma once

#include "troupe/net/session/endpoint.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

namespace troupe::net::testing {

using namespace std::chrono_literals;

/// Maximum time that a test waits for an event; long, because the machine may
/// be loaded.
inline constexpr auto max_wait = 60s;

/// A queue through which one thread passes items to another thread.
template <class T>
class mailbox {
public:
  void put(T x) {
    const std::lock_guard hold{lock_};
    items_.push_back(std::move(x));
    arrival_.notify_all();
  }
  /// Waits for the next item.
  /// @errors throws std::runtime_error if no item arrives within `max_wait`.
  T take() {
    std::unique_lock hold{lock_};
    if (!arrival_.wait_for(hold, max_wait, [this] { return !items_.empty(); }))
      throw std::runtime_error{"nothing arrived"};
    auto x = std::move(items_.front());
    items_.pop_front();
    return x;
  }
  std::size_t size() const {
    const std::lock_guard hold{lock_};
    return items_.size();
  }

private:
  mutable std::mutex lock_;
  std::condition_variable arrival_;
  std::deque<T> items_;
};

struct close_event {
  close_reason cause;
  std::string reason;
};

/// Records the frames and the end of a channel.
struct recording_listener : channel_listener {
  void on_frame(frame&& x) override { frames.put(std::move(x)); }
  void on_closed(close_reason how, const std::string& reason) override {
    closings.put({how, reason});
  }
  mailbox<frame> frames;
  mailbox<close_event> closings;
};

inline hello hello_of(const std::string& name,
                      const std::string& purpose = "control") {
  hello x;
  x.job = "job";
  x.name = name;
  x.purpose = purpose;
  return x;
}

inline endpoint_options listening_options(credentials given_credentials = {}) {
  endpoint_options options;
  options.listen = address{"127.0.0.1", 0};
  options.connection.credentials = std::move(given_credentials);
  // tests of the timeout set a shorter one
  options.connection.heartbeat_timeout = max_wait;
  return options;
}

inline endpoint_options dialing_options(credentials given_credentials = {}) {
  auto options = listening_options(std::move(given_credentials));
  options.listen.reset();
  return options;
}

inline credentials secret_credentials(std::string x) {
  credentials result;
  result.secret = std::move(x);
  return result;
}

/// An endpoint that accepts every peer, and records the accepted connections
/// and the log messages.
struct test_endpoint {
  struct accepted_peer {
    hello peer;
    accepted_connection connection;
  };

  explicit test_endpoint(endpoint_options options = listening_options()) {
    options.log = [this](severity how, const std::string& x) {
      log.put((how == severity::warning ? "warning: " : "") + x);
    };
    net_endpoint.emplace(options);
    net_endpoint->serve([this](const hello& x) { return authorize(x); },
                        [this](const hello& x, accepted_connection&& y) {
                          accepted.put({x, std::move(y)});
                        });
  }
  // ends the endpoint before the mailboxes, which its callbacks use
  ~test_endpoint() { net_endpoint.reset(); }

  std::future<endpoint::dial_result>
  dial(const address& peer_address, const hello& own_hello,
       std::chrono::milliseconds timeout = max_wait) {
    auto result = std::make_shared<std::promise<endpoint::dial_result>>();
    net_endpoint->dial(peer_address, own_hello, timeout,
                       [result](endpoint::dial_result&& dialed) {
                         result->set_value(std::move(dialed));
                       });
    return result->get_future();
  }

  std::function<hello_response(const hello&)> authorize = [](const hello&) {
    return hello_response{.responder = hello_of("host")};
  };
  mailbox<accepted_peer> accepted;
  mailbox<std::string> log;
  std::optional<endpoint> net_endpoint;
};

template <class T>
T await_result(std::future<T>&& x) {
  if (x.wait_for(max_wait) != std::future_status::ready)
    throw std::runtime_error{"nothing arrived"};
  return x.get();
}

/// Two endpoints, and both ends of a connection between them.
struct connected_endpoints {
  explicit connected_endpoints(
    const endpoint_options& left_options = dialing_options(),
    const endpoint_options& right_options = listening_options())
    : left{left_options}, right{right_options} {
    auto result = await_result(
      left.dial(right.net_endpoint->advertised_address(), hello_of("left")));
    if (!result.connection)
      throw std::runtime_error{result.reason};
    left_connection = std::get<std::shared_ptr<connection>>(*result.connection);
    right_connection =
      std::get<std::shared_ptr<connection>>(right.accepted.take().connection);
  }
  test_endpoint left, right;
  std::shared_ptr<connection> left_connection, right_connection;
};

} // namespace troupe::net::testing

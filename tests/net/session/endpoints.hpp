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

/// Maximum wait of a test, on a loaded machine.
inline constexpr auto long_enough = 60s;

/// Items that another thread has put, in order.
template <class T>
class mailbox {
public:
  void put(T x) {
    const std::lock_guard hold{lock_};
    all_.push_back(std::move(x));
    news_.notify_all();
  }
  /// Waits for the next item.
  /// @errors throws if none arrives within the maximum wait.
  T take() {
    std::unique_lock hold{lock_};
    if (!news_.wait_for(hold, long_enough, [this] { return !all_.empty(); }))
      throw std::runtime_error{"nothing arrived"};
    auto x = std::move(all_.front());
    all_.pop_front();
    return x;
  }
  std::size_t size() const {
    const std::lock_guard hold{lock_};
    return all_.size();
  }

private:
  mutable std::mutex lock_;
  std::condition_variable news_;
  std::deque<T> all_;
};

struct last_words {
  ending how;
  std::string why;
};

/// Records what arrives on a channel.
struct ear : link_listener {
  void heard(frame&& x) override { frames.put(std::move(x)); }
  void ended(ending how, const std::string& why) override {
    ends.put({how, why});
  }
  mailbox<frame> frames;
  mailbox<last_words> ends;
};

inline hello hello_of(const std::string& name,
                      const std::string& purpose = "control") {
  hello x;
  x.job = "job";
  x.name = name;
  x.purpose = purpose;
  return x;
}

inline endpoint_options listening(credentials how = {}) {
  endpoint_options x;
  x.listen = address{"127.0.0.1", 0};
  x.credentials = std::move(how);
  x.suspect = long_enough; // tests of timeouts set their own
  return x;
}

inline endpoint_options dialing_only(credentials how = {}) {
  auto x = listening(std::move(how));
  x.listen.reset();
  return x;
}

inline credentials secret(std::string x) {
  credentials how;
  how.secret = std::move(x);
  return how;
}

/// An endpoint that accepts every peer and records its connections and log
/// lines.
struct host {
  struct guest {
    hello who;
    arrived it;
  };

  explicit host(endpoint_options how = listening()) {
    how.log = [this](severity how, const std::string& x) {
      log.put((how == severity::warning ? "warning: " : "") + x);
    };
    it.emplace(how);
    it->on_dialed([this](const hello& x) { return decide(x); },
                  [this](const hello& x, arrived&& y) {
                    guests.put({x, std::move(y)});
                  });
  }
  ~host() { it.reset(); } // before the mailboxes

  std::future<endpoint::dialed>
  dial(const address& where, const hello& who,
       std::chrono::milliseconds patience = long_enough) {
    auto result = std::make_shared<std::promise<endpoint::dialed>>();
    it->dial(where, who, patience, [result](endpoint::dialed&& x) {
      result->set_value(std::move(x));
    });
    return result->get_future();
  }

  std::function<verdict(const hello&)> decide = [](const hello&) {
    return verdict{.who = hello_of("host")};
  };
  mailbox<guest> guests;
  mailbox<std::string> log;
  std::optional<endpoint> it;
};

template <class T>
T soon(std::future<T>&& x) {
  if (x.wait_for(long_enough) != std::future_status::ready)
    throw std::runtime_error{"nothing arrived"};
  return x.get();
}

/// Both ends of a connection between two hosts.
struct connected_hosts {
  explicit connected_hosts(const endpoint_options& left_how = dialing_only(),
                           const endpoint_options& right_how = listening())
    : left{left_how}, right{right_how} {
    auto x = soon(left.dial(right.it->reachable_at(), hello_of("left")));
    if (!x.it)
      throw std::runtime_error{x.why};
    at_left = std::get<std::shared_ptr<connection>>(*x.it);
    at_right = std::get<std::shared_ptr<connection>>(right.guests.take().it);
  }
  host left, right;
  std::shared_ptr<connection> at_left, at_right;
};

} // namespace troupe::net::testing

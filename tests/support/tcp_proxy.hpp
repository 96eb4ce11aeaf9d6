#pragma once

#include "troupe/net/base/address.hpp"
#include "troupe/net/io/socket_address.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace troupe::test {

/// Passes connections on to another address, cuts them, and changes bytes on
/// their way, as a fault of the network does. It reads the purpose of a
/// connection from the hello that the dialer sends, so the hello must not be
/// encrypted.
class tcp_proxy {
public:
  /// @param listens_on port of 127.0.0.1.
  tcp_proxy(std::uint16_t listens_on, net::address target)
    : target_{std::move(target)} {
    const auto here = net::resolve({"127.0.0.1", listens_on});
    listening_ = net::listen_on(here.found.at(0));
    if (!listening_)
      throw std::runtime_error("the proxy cannot listen");
    thread_ = std::thread{[this] { run(); }};
  }
  ~tcp_proxy() {
    ends_ = true;
    thread_.join();
  }
  tcp_proxy(const tcp_proxy&) = delete;
  tcp_proxy& operator=(const tcp_proxy&) = delete;

  /// Cuts the open connections of a purpose, such as "control".
  /// @param source the dialer's name; empty: any.
  void cut(const std::string& purpose, const std::string& source = {}) {
    const std::lock_guard hold{lock_};
    to_cut_.push_back({purpose, source});
  }
  /// Flips a bit of what the dialer next sends on a connection of a purpose.
  void flip(const std::string& purpose) {
    const std::lock_guard hold{lock_};
    ++to_flip_[purpose];
  }
  /// From now on, connections of a purpose are closed when they are made.
  void block(const std::string& purpose) {
    const std::lock_guard hold{lock_};
    blocked_.push_back(purpose);
  }

  /// From now on nothing is passed on. The connections stay open.
  void stall() { stalls_ = true; }

  /// Waits until a connection of a purpose was made, at most a minute.
  void wait_for_connection(const std::string& purpose) {
    std::unique_lock hold{lock_};
    made_one_.wait_for(hold, std::chrono::minutes{1},
                       [&] { return made_[purpose] > 0; });
  }
  /// Number of connections of a purpose so far.
  int connections(const std::string& purpose) {
    const std::lock_guard hold{lock_};
    return made_[purpose];
  }
  int cuts() const { return cuts_; }
  int flips() const { return flips_; }

private:
  struct pair {
    std::array<net::descriptor, 2> ends; ///< To the dialer, to the target.
    std::array<std::vector<std::byte>, 2> unsent; ///< By receiving end.
    std::array<bool, 2> read_closed{};
    std::string head; ///< What the dialer has sent before the purpose.
    std::string purpose;
    bool ended = false;
  };
  struct cut_request {
    std::string purpose, source;
  };

  void run() {
    while (!ends_) {
      std::vector<pollfd> watched{{listening_.get(), POLLIN, 0}};
      for (auto& x : pairs_)
        for (int i = 0; i < 2; ++i) {
          short events = 0;
          if (!x.read_closed[i] && x.unsent[1 - i].size() < (1u << 20))
            events |= POLLIN;
          if (!x.unsent[i].empty())
            events |= POLLOUT;
          watched.push_back({x.ends[i].get(), events, 0});
        }
      ::poll(watched.data(), watched.size(), 5);
      if (stalls_)
        continue;
      accept();
      const std::lock_guard hold{lock_};
      for (auto& x : pairs_) {
        for (int i = 0; i < 2 && !x.ended; ++i)
          receive(x, i);
        for (int i = 0; i < 2 && !x.ended; ++i)
          send(x, i);
        for (const auto& [purpose, source] : to_cut_)
          if (x.purpose == purpose
              && x.head.find(source) != std::string::npos) {
            x.ended = true;
            ++cuts_;
          }
      }
      to_cut_.clear();
      pairs_.remove_if([](const pair& x) { return x.ended; });
    }
  }

  void accept() {
    net::socket_address peer;
    auto socket = net::accept_from(listening_.get(), peer);
    if (!socket)
      return;
    auto onward = net::connect_async(
      net::resolve({target_.host, target_.port}).found.at(0));
    auto& x = pairs_.emplace_back();
    x.ends[0] = std::move(socket);
    x.ends[1] = std::move(onward);
  }

  void receive(pair& x, int from) {
    std::array<std::byte, 65536> bytes;
    const auto n = ::recv(x.ends[from].get(), bytes.data(), bytes.size(), 0);
    if (n < 0 && errno != EAGAIN && errno != ENOTCONN)
      x.ended = true;
    if (n == 0)
      x.read_closed[from] = true;
    if (n <= 0)
      return;
    const auto count = static_cast<std::size_t>(n);
    if (from == 0)
      read_purpose(x, {reinterpret_cast<const char*>(bytes.data()), count});
    if (auto& flips = to_flip_[x.purpose];
        from == 0 && !x.purpose.empty() && flips > 0) {
      --flips;
      ++flips_;
      bytes[count - 1] ^= std::byte{1};
    }
    auto& out = x.unsent[1 - from];
    out.insert(out.end(), bytes.begin(), bytes.begin() + n);
  }

  void read_purpose(pair& x, const std::string& bytes) {
    if (!x.purpose.empty())
      return;
    x.head += bytes;
    auto first = std::string::npos; // what follows the purpose may be any text
    for (const char* one :
         {"reconnect", "contributions", "results", "control", "peer", "join"})
      if (const auto found = x.head.find(one); found < first) {
        first = found;
        x.purpose = one;
      }
    if (x.purpose.empty())
      return;
    x.head.resize(first);
    ++made_[x.purpose];
    made_one_.notify_all();
    x.ended = std::ranges::find(blocked_, x.purpose) != blocked_.end();
  }

  void send(pair& x, int to) {
    auto& out = x.unsent[to];
    if (!out.empty()) {
      const auto n =
        ::send(x.ends[to].get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != ENOTCONN)
        x.ended = true;
      if (n > 0)
        out.erase(out.begin(), out.begin() + n);
    }
    if (out.empty() && x.read_closed[1 - to]) {
      ::shutdown(x.ends[to].get(), SHUT_WR);
      x.ended |= x.read_closed[to];
    }
  }

  const net::address target_;
  net::descriptor listening_;
  std::list<pair> pairs_;
  std::mutex lock_; ///< Guards the members below, and what `pairs_` points to.
  std::condition_variable made_one_; ///< `made_` has changed.
  std::vector<cut_request> to_cut_;
  std::map<std::string, int> to_flip_, made_; ///< By purpose.
  std::vector<std::string> blocked_;
  std::atomic<int> cuts_ = 0, flips_ = 0;
  std::atomic<bool> ends_ = false, stalls_ = false;
  std::thread thread_;
};

} // namespace troupe::test

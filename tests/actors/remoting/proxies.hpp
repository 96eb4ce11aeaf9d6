#pragma once

#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/remoting/skeleton.hpp"
#include "troupe/simulation/simulator.hpp"
#include "troupe/tests/support/loopback_channel.hpp"

#include <caf/scoped_actor.hpp>

#include <deque>
#include <optional>

// A role, its skeleton, a channel and a proxy of the role, all in one
// simulator.

namespace troupe::testing {

/// State of a response: values, an error, or neither so far.
template <class... Os>
struct response {
  std::optional<std::tuple<Os...>> values;
  std::string error;
  bool pending() const { return !values && error.empty(); }
};

template <class Role>
struct remote_fixture {
  using side = net::loopback_channel::side;

  template <class F, class... Args>
  explicit remote_fixture(const proxy_options& near,
                          const skeleton_options& far,
                          const net::loopback_options& between, F behavior,
                          Args... args)
    : channel{between} {
    role = simulator.spawn(behavior, args...);
    role_skeleton =
      spawn_skeleton(simulator.sys, role, channel.end_of(side::right), far);
    simulator.own(role_skeleton);
    proxied =
      spawn_proxy<Role>(simulator.sys, channel.end_of(side::left), near);
    simulator.own(proxied);
    watcher->monitor(proxied);
  }

  void settle() {
    do
      simulator.run_until_idle();
    while (channel.deliver() > 0 || simulator.step());
  }

  void advance(std::chrono::milliseconds by) {
    settle();
    for (; by.count() > 0; by -= std::chrono::milliseconds{10}) {
      simulator.advance(std::chrono::milliseconds{10});
      settle();
    }
  }

  /// Sends a request to the proxy, which handles it when the test calls
  /// `settle`.
  template <class... Ts>
  auto request(const Ts&... xs) {
    return watcher->request(proxied, std::chrono::seconds{3600}, xs...);
  }

  /// Handles all messages, and then returns the state of the response.
  template <class... Os, class Handle>
  response<Os...> read(Handle& asked) {
    response<Os...> found;
    settle();
    if (watcher->has_next_message())
      asked.receive(
        [&](const Os&... xs) { found.values.emplace(xs...); },
        [&](const caf::error& e) { found.error = simulator.sys.render(e); });
    return found;
  }

  template <class... Os, class... Ts>
  response<Os...> ask(const Ts&... xs) {
    auto asked = request(xs...);
    return read<Os...>(asked);
  }

  /// Handles all messages, and then returns the exit reason of the proxy.
  /// Nullopt: the proxy lives.
  std::optional<caf::error> proxy_end() {
    settle();
    std::optional<caf::error> why;
    if (watcher->has_next_message())
      watcher->receive([&](const caf::down_msg& x) { why = x.reason; });
    return why;
  }

  simulation::simulator simulator;
  net::loopback_channel channel;
  caf::scoped_actor watcher{simulator.sys, true};
  Role role, proxied;
  skeleton_actor role_skeleton;
};

} // namespace troupe::testing

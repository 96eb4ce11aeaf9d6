#pragma once

#include "troupe/actors/membership/cluster.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/session/service_router.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Several members of a cluster in one process. Each has a runtime, an endpoint
// on a free port, and a thread that runs its program.

namespace troupe::testing {

using namespace std::chrono_literals;

struct member {
  std::unique_ptr<runtime> on = std::make_unique<runtime>();
  std::shared_ptr<door> at;
  std::unique_ptr<cluster> in;
  std::unique_ptr<crew> with;
  std::string problem; ///< Error of joining or of a run. Empty: none.
  std::optional<ec> code;

  ~member() {
    with.reset();
    in.reset();
    at.reset();
  }

  template <class F>
  void attempt(F&& fn) {
    try {
      fn();
    } catch (const failure& e) {
      problem = e.what();
      code = e.code;
    }
  }
};

inline std::shared_ptr<door> new_door() {
  net::endpoint_options x;
  x.listen = net::address{"127.0.0.1", 0};
  x.patience = 2s;
  return std::make_shared<door>(x);
}

/// Makes a router whose endpoint sets the promise at its first rejection by a
/// process that does not serve its purpose yet.
inline std::shared_ptr<door> door_that_hears_a_refusal(std::promise<void>& at) {
  net::endpoint_options x;
  x.listen = net::address{"127.0.0.1", 0};
  x.log = [&at, once = false](net::severity, const std::string& line) mutable {
    if (!once && mentions(line, "no service 'control'")) {
      once = true;
      at.set_value();
    }
  };
  return std::make_shared<door>(x);
}

struct company_of {
  explicit company_of(std::uint32_t processes) : members(processes) {
    for (auto& x : members) {
      x.at = new_door();
      addresses.push_back(x.at->endpoint().reachable_at());
    }
  }

  cluster_options options_of(std::uint32_t i) const {
    cluster_options x;
    x.addresses = addresses;
    for (std::uint32_t p = 0; p < addresses.size(); ++p)
      x.names.push_back((p == 0 ? "chief " : "worker ") + std::to_string(p));
    x.index = i;
    x.replicas = replicas;
    x.patience = patience;
    x.farewell = 2s;
    x.at = members[i].at;
    if (change)
      change(i, x);
    return x;
  }

  /// Calls a function for some members, each on a thread of its own.
  template <class F>
  void each(const std::vector<std::uint32_t>& whom, F&& fn) {
    std::vector<std::thread> mains;
    for (const auto i : whom)
      mains.emplace_back(
        [this, i, &fn] { members[i].attempt([&] { fn(members[i], i); }); });
    for (auto& x : mains)
      x.join();
  }
  template <class F>
  void each(F&& fn) {
    each(all(), std::forward<F>(fn));
  }

  void join(const std::vector<std::uint32_t>& whom) {
    each(whom, [this](member& x, std::uint32_t i) {
      x.in = std::make_unique<cluster>(*x.on, options_of(i));
    });
  }
  void join() { join(all()); }

  /// Joins all members, and makes the replica group of each.
  void gather(const crew_options& options = {}) {
    join();
    each([&](member& x, std::uint32_t) {
      if (x.in)
        x.with = make_crew(*x.in, options);
    });
    for (const auto& x : members)
      ASSERT_EQ(x.problem, "");
  }

  std::vector<std::uint32_t> all() const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < members.size(); ++i)
      out.push_back(i);
    return out;
  }

  std::uint32_t replicas = 1; ///< Replicas of each process.
  std::chrono::milliseconds patience{20'000};
  std::function<void(std::uint32_t, cluster_options&)> change;
  std::vector<net::address> addresses;
  std::vector<member> members;
};

} // namespace troupe::testing

#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <gtest/gtest.h>

#include <functional>

namespace troupe::test {

enum class host { this_thread, detached_actor };

/// Runs a test on a plain thread and on a detached actor.
class OnEachHost : public ::testing::TestWithParam<host> {
protected:
  void run_on_host(const std::function<void()>& fn) {
    if (GetParam() == host::this_thread)
      return fn();
    caf::actor_system_config cfg;
    caf::actor_system sys{cfg};
    sys.spawn<caf::detached>([&fn](caf::event_based_actor*) { fn(); });
    sys.await_all_actors_done();
  }
};

inline const auto all_hosts =
  ::testing::Values(host::this_thread, host::detached_actor);

inline const auto name_of_host = [](const auto& info) {
  return info.param == host::this_thread ? "this_thread" : "detached_actor";
};

} // namespace troupe::test

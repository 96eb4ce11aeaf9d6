#include "troupe/actors/runtime/runtime.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <gtest/gtest.h>

#include <future>

using namespace troupe;
using namespace std::chrono_literals;

TEST(Runtime, LogsActorsThatDoNotTerminate) {
  std::promise<void> begun, release, ended;
  const auto released = release.get_future().share();
  std::string said;
  {
    runtime on{{.patience = 1ms, .log = [&](const auto& x) { said = x; }}};
    on.system().spawn<caf::detached>([&, released](caf::event_based_actor*) {
      begun.set_value();
      released.wait_for(20s);
      ended.set_value();
    });
    ASSERT_EQ(begun.get_future().wait_for(20s), std::future_status::ready);
  }
  EXPECT_EQ(said, "runtime: some actors did not end within 1 ms; they and "
                  "their threads are left behind");
  release.set_value();
  EXPECT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
}

TEST(Runtime, LogsNothingIfAllActorsTerminate) {
  std::string said;
  {
    runtime on{{.log = [&](const auto& x) { said = x; }}};
    on.system().spawn([](caf::event_based_actor*) {});
  }
  EXPECT_EQ(said, "");
}

TEST(Runtime, HasItsOwnIncarnation) {
  EXPECT_NE(runtime{}.incarnation(), runtime{}.incarnation());
}

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
  std::string log_text;
  {
    runtime host{
      {.shutdown_timeout = 1ms, .log = [&](const auto& x) { log_text = x; }}};
    host.system().spawn<caf::detached>([&, released](caf::event_based_actor*) {
      begun.set_value();
      released.wait_for(20s);
      ended.set_value();
    });
    ASSERT_EQ(begun.get_future().wait_for(20s), std::future_status::ready);
  }
  EXPECT_EQ(log_text, "runtime: some actors did not end within 1 ms; they and "
                      "their threads are abandoned");
  release.set_value();
  EXPECT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
}

TEST(Runtime, LogsNothingIfAllActorsTerminate) {
  std::string log_text;
  {
    runtime host{{.log = [&](const auto& x) { log_text = x; }}};
    host.system().spawn([](caf::event_based_actor*) {});
  }
  EXPECT_EQ(log_text, "");
}

TEST(Runtime, HasItsOwnIncarnation) {
  EXPECT_NE(runtime{}.incarnation(), runtime{}.incarnation());
}

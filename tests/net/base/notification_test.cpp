#include "troupe/net/base/notification.hpp"

#include <gtest/gtest.h>

#include <thread>

using namespace std::chrono_literals;
using troupe::net::notification;

TEST(Notification, TimesOutUntilTheEvent) {
  notification event;
  EXPECT_FALSE(event.wait_for(1ms));
  event.notify();
  event.notify();
  EXPECT_TRUE(event.wait_for(0ms));
  EXPECT_TRUE(event.wait_for(0ms)) << "the event stays reported";
}

TEST(Notification, WakesAllWaitingThreads) {
  notification event;
  bool first = false, second = false;
  {
    const std::jthread a{[&] { first = event.wait_for(60s); }};
    const std::jthread b{[&] { second = event.wait_for(60s); }};
    event.notify();
  }
  EXPECT_TRUE(first);
  EXPECT_TRUE(second);
}

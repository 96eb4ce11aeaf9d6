#include "troupe/net/io/io_loop.hpp"
#include "troupe/tests/net/session/endpoints.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <pthread.h>
#include <system_error>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using timer = troupe::net::timer;

/// Three timers that are due at the same time. They expire in order. The
/// handler of the first timer calls `meddle` with the second timer.
struct three_timers {
  explicit three_timers(std::function<void(timer&)> meddle)
    : first{loop,
            [this, meddle] {
              expired.put("first");
              meddle(*second);
            }},
      third{loop, [this] { expired.put("third"); }} {
    loop.post([this] {
      second.emplace(loop, [this] { expired.put("second"); });
      first.expires_after(0ns);
      second->expires_after(0ns);
      third.expires_after(0ns);
      const auto due = std::chrono::steady_clock::now();
      // until all timers are due
      while (std::chrono::steady_clock::now() == due)
        ;
    });
  }
  ~three_timers() { loop.stop(); }

  io_loop loop;
  mailbox<std::string> expired;
  timer first;
  std::optional<timer> second;
  timer third;
};

sigset_t blocked_here() {
  sigset_t x;
  pthread_sigmask(SIG_SETMASK, nullptr, &x);
  return x;
}

} // namespace

TEST(Timer, DoesNotExpireAfterCancelEvenIfItIsDue) {
  three_timers x{[](timer& other) { other.cancel(); }};
  EXPECT_EQ(x.expired.take(), "first");
  EXPECT_EQ(x.expired.take(), "third");
}

TEST(Timer, ReplacesAnEarlierTimeEvenIfItIsDue) {
  three_timers x{[](timer& other) { other.expires_after(max_wait); }};
  EXPECT_EQ(x.expired.take(), "first");
  EXPECT_EQ(x.expired.take(), "third");
}

TEST(IoLoop, KeepsTheCallersSignalMaskIfItCannotStart) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  pthread_attr_init(&huge);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 46), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  EXPECT_THROW(io_loop{}, std::system_error);
  pthread_setattr_default_np(&usual);
  const auto now = blocked_here();
  EXPECT_EQ(sigismember(&now, SIGINT), 0);
}

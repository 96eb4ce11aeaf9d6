#include "troupe/net/io/io_loop.hpp"
#include "troupe/tests/net/session/endpoints.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <pthread.h>
#include <system_error>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using timer = troupe::net::alarm;

/// Three timers that are due at once. The handler of the first changes the
/// second; the third expires last.
struct three_alarms {
  explicit three_alarms(std::function<void(timer&)> meddle)
    : first{loop,
            [this, meddle] {
              rung.put("first");
              meddle(*second);
            }},
      third{loop, [this] { rung.put("third"); }} {
    loop.post([this] {
      second.emplace(loop, [this] { rung.put("second"); });
      first.in(0ns);
      second->in(0ns);
      third.in(0ns);
      const auto due = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() == due) // until all are due
        ;
    });
  }
  ~three_alarms() { loop.stop(); }

  io_loop loop;
  mailbox<std::string> rung;
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
  three_alarms x{[](timer& other) { other.off(); }};
  EXPECT_EQ(x.rung.take(), "first");
  EXPECT_EQ(x.rung.take(), "third");
}

TEST(Timer, ReplacesAnEarlierTimeEvenIfItIsDue) {
  three_alarms x{[](timer& other) { other.in(long_enough); }};
  EXPECT_EQ(x.rung.take(), "first");
  EXPECT_EQ(x.rung.take(), "third");
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

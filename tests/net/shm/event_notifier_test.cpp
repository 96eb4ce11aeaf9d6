#include "troupe/net/shm/event_notifier.hpp"
#include "troupe/tests/net/session/endpoints.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fcntl.h>
#include <future>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

bool rings(const bell& x) {
  pollfd listener{x.listener(), POLLIN, 0};
  return ::poll(&listener, 1, 0) == 1;
}

/// A duplicate of the notifying end, as another process holds it.
descriptor copy_of(const bell& x) {
  return descriptor{::fcntl(x.descriptor(), F_DUPFD_CLOEXEC, 0)};
}

void silence(bell& x) {
  x.listen();
  x.silence();
}

/// True if `notify` returns; if not, its thread is left behind.
bool ringing_ends(int descriptor) {
  auto rung = std::make_shared<std::promise<void>>();
  auto end = rung->get_future();
  std::thread{[rung, descriptor] {
    ring(descriptor);
    rung->set_value();
  }}.detach();
  return end.wait_for(long_enough) == std::future_status::ready;
}

} // namespace

TEST(EventNotifier, StaysSetUntilItIsCleared) {
  bell x;
  const auto passed_on = copy_of(x);
  EXPECT_FALSE(rings(x));
  ring(passed_on.get());
  ring(x.descriptor());
  EXPECT_TRUE(rings(x));
  silence(x);
  EXPECT_FALSE(rings(x));
  ring(passed_on.get());
  EXPECT_TRUE(rings(x));
}

TEST(EventNotifier, NeverBlocksWhateverOtherHoldersDo) {
  bell x;
  const auto passed_on = copy_of(x);
  const auto flags = ::fcntl(passed_on.get(), F_GETFL);
  ASSERT_EQ(::fcntl(passed_on.get(), F_SETFL, flags | O_NONBLOCK), 0);
  const std::array<char, 4096> much{};
  while (::write(passed_on.get(), much.data(), much.size()) > 0)
    ;
  ASSERT_EQ(::fcntl(passed_on.get(), F_SETFL, flags & ~O_NONBLOCK), 0);
  EXPECT_TRUE(ringing_ends(x.descriptor()));
  EXPECT_TRUE(rings(x));
  while (rings(x)) // all bytes are read in the end
    silence(x);
  ring(x.descriptor());
  EXPECT_TRUE(rings(x));
}

TEST(EventNotifier, CannotBeClearedByOthers) {
  bell x;
  const auto passed_on = copy_of(x);
  ring(x.descriptor());
  std::array<char, 8> some{};
  EXPECT_LT(::recv(passed_on.get(), some.data(), some.size(), MSG_DONTWAIT), 0);
  EXPECT_TRUE(rings(x));
}

TEST(EventNotifier, StaysSetAfterAPeerShutsItDown) {
  bell x;
  const auto passed_on = copy_of(x);
  ASSERT_EQ(::shutdown(passed_on.get(), SHUT_RDWR), 0);
  EXPECT_TRUE(ringing_ends(x.descriptor()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(rings(x));
    silence(x);
  }
}

TEST(EventNotifier, IgnoresNotifyAfterItsOwnerHasEnded) {
  auto x = std::make_unique<bell>();
  const auto passed_on = copy_of(*x);
  x.reset();
  EXPECT_TRUE(ringing_ends(passed_on.get()));
}

TEST(EventNotifier, IsAUnixStreamSocket) {
  EXPECT_TRUE(is_bell(bell{}.descriptor()));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const descriptor out{ends[0]}, in{ends[1]};
  EXPECT_FALSE(is_bell(in.get()));
  EXPECT_FALSE(is_bell(descriptor{::eventfd(0, EFD_NONBLOCK)}.get()));
  EXPECT_FALSE(is_bell(descriptor{::socket(AF_INET, SOCK_STREAM, 0)}.get()));
  EXPECT_FALSE(is_bell(descriptor{::socket(AF_UNIX, SOCK_DGRAM, 0)}.get()));
  EXPECT_FALSE(is_bell(-1));
}

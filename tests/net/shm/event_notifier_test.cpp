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

bool is_set(const event_notifier& notifier) {
  pollfd listener{notifier.wait_descriptor(), POLLIN, 0};
  return ::poll(&listener, 1, 0) == 1;
}

/// Returns a duplicate of the notifying end. It stands for the descriptor that
/// another process holds.
descriptor copy_of(const event_notifier& notifier) {
  return descriptor{::fcntl(notifier.descriptor(), F_DUPFD_CLOEXEC, 0)};
}

void clear(event_notifier& notifier) {
  notifier.arm();
  notifier.clear();
}

/// True if `notify` returns within `max_wait`. If not, the thread that called
/// `notify` continues to run.
bool notify_returns(int descriptor) {
  auto notified = std::make_shared<std::promise<void>>();
  auto end = notified->get_future();
  std::thread{[notified, descriptor] {
    notify(descriptor);
    notified->set_value();
  }}.detach();
  return end.wait_for(max_wait) == std::future_status::ready;
}

} // namespace

TEST(EventNotifier, StaysSetUntilItIsCleared) {
  event_notifier notifier;
  const auto passed_on = copy_of(notifier);
  EXPECT_FALSE(is_set(notifier));
  notify(passed_on.get());
  notify(notifier.descriptor());
  EXPECT_TRUE(is_set(notifier));
  clear(notifier);
  EXPECT_FALSE(is_set(notifier));
  notify(passed_on.get());
  EXPECT_TRUE(is_set(notifier));
}

TEST(EventNotifier, NeverBlocksWhateverOtherHoldersDo) {
  event_notifier notifier;
  const auto passed_on = copy_of(notifier);
  const auto flags = ::fcntl(passed_on.get(), F_GETFL);
  ASSERT_EQ(::fcntl(passed_on.get(), F_SETFL, flags | O_NONBLOCK), 0);
  const std::array<char, 4096> much{};
  while (::write(passed_on.get(), much.data(), much.size()) > 0)
    ;
  ASSERT_EQ(::fcntl(passed_on.get(), F_SETFL, flags & ~O_NONBLOCK), 0);
  EXPECT_TRUE(notify_returns(notifier.descriptor()));
  EXPECT_TRUE(is_set(notifier));
  while (is_set(notifier)) // each `clear` reads some of the bytes
    clear(notifier);
  notify(notifier.descriptor());
  EXPECT_TRUE(is_set(notifier));
}

TEST(EventNotifier, CannotBeClearedByOthers) {
  event_notifier notifier;
  const auto passed_on = copy_of(notifier);
  notify(notifier.descriptor());
  std::array<char, 8> some{};
  EXPECT_LT(::recv(passed_on.get(), some.data(), some.size(), MSG_DONTWAIT), 0);
  EXPECT_TRUE(is_set(notifier));
}

TEST(EventNotifier, StaysSetAfterAPeerShutsItDown) {
  event_notifier notifier;
  const auto passed_on = copy_of(notifier);
  ASSERT_EQ(::shutdown(passed_on.get(), SHUT_RDWR), 0);
  EXPECT_TRUE(notify_returns(notifier.descriptor()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_set(notifier));
    clear(notifier);
  }
}

TEST(EventNotifier, IgnoresNotifyAfterItsOwnerHasEnded) {
  auto notifier = std::make_unique<event_notifier>();
  const auto passed_on = copy_of(*notifier);
  notifier.reset();
  EXPECT_TRUE(notify_returns(passed_on.get()));
}

TEST(EventNotifier, IsAUnixStreamSocket) {
  EXPECT_TRUE(is_event_notifier(event_notifier{}.descriptor()));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const descriptor out{ends[0]}, in{ends[1]};
  EXPECT_FALSE(is_event_notifier(in.get()));
  EXPECT_FALSE(is_event_notifier(descriptor{::eventfd(0, EFD_NONBLOCK)}.get()));
  EXPECT_FALSE(
    is_event_notifier(descriptor{::socket(AF_INET, SOCK_STREAM, 0)}.get()));
  EXPECT_FALSE(
    is_event_notifier(descriptor{::socket(AF_UNIX, SOCK_DGRAM, 0)}.get()));
  EXPECT_FALSE(is_event_notifier(-1));
}

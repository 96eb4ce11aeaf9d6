#include "troupe/net/shm/descriptor_exchange.hpp"
#include "troupe/net/shm/event_notifier.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace troupe::net;

namespace {

class DescriptorExchange : public ::testing::Test {
protected:
  const descriptor segment{::memfd_create("test", MFD_CLOEXEC)};
  const event_notifier notifier;
  const descriptor_acceptor fd_acceptor;
  const descriptor_set own{segment.get(), notifier.descriptor()};

  descriptor_connector connect_with(const exchange_token& token) const {
    return {fd_acceptor.name(), token, own};
  }
  received_descriptors accept() const { return fd_acceptor.accept(own); }
};

ino_t file_of(int fd) {
  struct stat x {};
  return ::fstat(fd, &x) == 0 ? x.st_ino : 0;
}

} // namespace

TEST_F(DescriptorExchange, PassesSegmentAndNotifierBothWays) {
  const auto connecting = connect_with(fd_acceptor.token());
  const auto from_connector = accept();
  const auto from_acceptor = connecting.receive();
  for (const auto* x : {&from_connector, &from_acceptor}) {
    EXPECT_NE(x->segment.get(), segment.get());
    EXPECT_EQ(file_of(x->segment.get()), file_of(segment.get()));
    EXPECT_NE(::fcntl(x->notifier.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  notify(from_acceptor.notifier.get());
  pollfd listener{notifier.wait_descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&listener, 1, 0), 1);
}

TEST_F(DescriptorExchange, PassesAnArenaIfThereIsOne) {
  const descriptor arena{::memfd_create("test", MFD_CLOEXEC)};
  const descriptor_connector connecting{
    fd_acceptor.name(),
    fd_acceptor.token(),
    {segment.get(), notifier.descriptor(), arena.get()}};
  const auto from_connector = accept();
  EXPECT_EQ(file_of(from_connector.arena.get()), file_of(arena.get()));
  EXPECT_FALSE(connecting.receive().arena);
}

TEST_F(DescriptorExchange, RejectsAPeerWithAWrongToken) {
  auto wrong = fd_acceptor.token();
  wrong[31] ^= std::byte{1};
  const auto rejected = connect_with(wrong);
  EXPECT_THROW(accept(), std::runtime_error);
  EXPECT_THROW(rejected.receive(), std::runtime_error);

  const auto another = connect_with(wrong);
  const auto connecting = connect_with(fd_acceptor.token());
  EXPECT_TRUE(accept().segment);
  EXPECT_TRUE(connecting.receive().segment);
}

TEST_F(DescriptorExchange, FailsWithoutAConnection) {
  EXPECT_THROW(accept(), std::runtime_error);
  EXPECT_THROW(descriptor_connector("troupe-unknown", fd_acceptor.token(), own),
               std::runtime_error);
  EXPECT_THROW(
    descriptor_connector(std::string(200, 'x'), fd_acceptor.token(), own),
    std::runtime_error);
}

TEST_F(DescriptorExchange, RejectsANotifierThatIsNoSocket) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const descriptor out{ends[0]}, in{ends[1]};
  const descriptor counter{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  for (const auto* x : {&in, &counter}) {
    const descriptor_connector connecting{
      fd_acceptor.name(), fd_acceptor.token(), {segment.get(), x->get()}};
    EXPECT_THROW(accept(), std::runtime_error);
  }
}

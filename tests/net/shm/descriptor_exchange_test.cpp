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

class MeetingPlace : public testing::Test {
protected:
  const descriptor memory{::memfd_create("test", MFD_CLOEXEC)};
  const bell my_bell;
  const meeting_place place;
  const offered mine{memory.get(), my_bell.descriptor()};

  visit visit_with(const meeting_token& token) const {
    return {place.name(), token, mine};
  }
  passed welcome() const { return place.welcome(mine); }
};

ino_t file_of(int fd) {
  struct stat x {};
  return ::fstat(fd, &x) == 0 ? x.st_ino : 0;
}

} // namespace

TEST_F(MeetingPlace, PassesSegmentAndNotifierBothWays) {
  const auto visitor = visit_with(place.token());
  const auto by_visitor = welcome();
  const auto by_host = visitor.received();
  for (const auto* x : {&by_visitor, &by_host}) {
    EXPECT_NE(x->memory.get(), memory.get());
    EXPECT_EQ(file_of(x->memory.get()), file_of(memory.get()));
    EXPECT_NE(::fcntl(x->bell.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  ring(by_host.bell.get());
  pollfd listener{my_bell.listener(), POLLIN, 0};
  EXPECT_EQ(::poll(&listener, 1, 0), 1);
}

TEST_F(MeetingPlace, PassesAnArenaIfThereIsOne) {
  const descriptor arena{::memfd_create("test", MFD_CLOEXEC)};
  const visit visitor{place.name(),
                      place.token(),
                      {memory.get(), my_bell.descriptor(), arena.get()}};
  const auto by_visitor = welcome();
  EXPECT_EQ(file_of(by_visitor.arena.get()), file_of(arena.get()));
  EXPECT_FALSE(visitor.received().arena);
}

TEST_F(MeetingPlace, RejectsAPeerWithAWrongToken) {
  auto wrong = place.token();
  wrong[31] ^= std::byte{1};
  const auto stranger = visit_with(wrong);
  EXPECT_THROW(welcome(), std::runtime_error);
  EXPECT_THROW(stranger.received(), std::runtime_error);

  const auto another = visit_with(wrong);
  const auto visitor = visit_with(place.token());
  EXPECT_TRUE(welcome().memory);
  EXPECT_TRUE(visitor.received().memory);
}

TEST_F(MeetingPlace, FailsWithoutAConnection) {
  EXPECT_THROW(welcome(), std::runtime_error);
  EXPECT_THROW(visit("troupe-nobody", place.token(), mine), std::runtime_error);
  EXPECT_THROW(visit(std::string(200, 'x'), place.token(), mine),
               std::runtime_error);
}

TEST_F(MeetingPlace, RejectsANotifierThatIsNoSocket) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const descriptor out{ends[0]}, in{ends[1]};
  const descriptor counter{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  for (const auto* x : {&in, &counter}) {
    const visit visitor{place.name(), place.token(), {memory.get(), x->get()}};
    EXPECT_THROW(welcome(), std::runtime_error);
  }
}

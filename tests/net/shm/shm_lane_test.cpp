#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// A memfd, as a peer may send one.
descriptor file_of(std::size_t bytes, int seals) {
  descriptor fd{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0
      || ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0)
    throw std::runtime_error("cannot create a memfd");
  return fd;
}

std::size_t size_of(int fd) {
  return static_cast<std::size_t>(::lseek(fd, 0, SEEK_END));
}

std::string refusal(int fd, std::uint32_t slots) {
  try {
    const shm_view view{fd, slots};
    return {};
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

} // namespace

TEST(ShmSegment, CannotBeWrittenOrShrunkByItsReceiver) {
  const shm_segment mine{few_slots};
  const auto fd = mine.descriptor();
  const auto bytes = size_of(fd);
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_EQ(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
            MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  EXPECT_EQ(refusal(fd, few_slots), "");
}

TEST(ShmSegment, RejectsDescriptorsThatAreNoSealedMemfdOfThatSize) {
  const shm_segment mine{few_slots};
  const auto bytes = size_of(mine.descriptor());
  EXPECT_NE(refusal(file_of(bytes, 0).get(), few_slots).find("F_SEAL_SHRINK"),
            std::string::npos);
  EXPECT_NE(refusal(file_of(bytes - 1, F_SEAL_SHRINK).get(), few_slots)
              .find(std::to_string(bytes - 1) + " bytes"),
            std::string::npos);
  EXPECT_NE(refusal(mine.descriptor(), few_slots + 1), "");
  const descriptor file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  EXPECT_NE(refusal(file.get(), few_slots), "");
  EXPECT_NE(refusal(-1, few_slots), "");
}

TEST(ShmLane, ViewsPacketsInPlace) {
  const shm_grounds grounds;
  auto lanes = lanes_over(grounds, 1);
  ASSERT_TRUE(lanes.left->post(head_of(7), bytes_of(7, 1000)));
  ASSERT_NE(lanes.right->front(), nullptr);
  const auto seen = lanes.right->view();
  EXPECT_EQ(std::vector(seen.begin(), seen.end()), bytes_of(7, 1000));
  EXPECT_EQ(seen.data(), grounds.right->theirs.slot(1, 0).payload.data());
}

TEST(ShmLane, SeesOnlyItsOwnQueue) {
  const shm_grounds grounds;
  auto parts = lanes_over(grounds, 0), sums = lanes_over(grounds, 1);
  ASSERT_TRUE(parts.left->post(head_of(1), bytes_of(1, 10)));
  EXPECT_EQ(sums.right->front(), nullptr);
  ASSERT_TRUE(sums.left->post(head_of(2), bytes_of(2, 10)));
  ASSERT_NE(sums.right->front(), nullptr);
  EXPECT_EQ(*sums.right->front(), head_of(2));
  ASSERT_NE(parts.right->front(), nullptr);
  EXPECT_EQ(*parts.right->front(), head_of(1));
}

TEST(ShmLane, LosesNoEventWhenLanesShareANotifier) {
  const shm_grounds grounds;
  auto parts = lanes_over(grounds, 0), sums = lanes_over(grounds, 1);
  lane* const both[]{parts.right.get(), sums.right.get()};
  std::vector<pollfd> watched;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(parts.right->before_sleep(watched));
    ASSERT_TRUE(sums.right->before_sleep(watched));
    ASSERT_TRUE(sums.left->post(head_of(i), bytes_of(i, 1)));
    ASSERT_TRUE(parts.left->post(head_of(i), bytes_of(i, 1)));
    parts.right->after_sleep(); // clears the notifier
    sums.right->after_sleep();
    EXPECT_TRUE(sleep_on(both, std::chrono::seconds{0}, watched));
    ASSERT_NE(parts.right->front(), nullptr);
    parts.right->pop();
    EXPECT_TRUE(sleep_on(both, std::chrono::seconds{0}, watched));
    ASSERT_NE(sums.right->front(), nullptr);
    sums.right->pop();
    watched.clear();
  }
}

TEST(ShmLane, EndsOnBytesOnItsStream) {
  const shm_grounds grounds;
  auto [left, right] = connected_streams();
  shm_lane lane{grounds.left, 0, std::move(left)};
  const std::byte some[3]{};
  right->write_some(some);
  EXPECT_TRUE(wait_for_news(lane));
  ASSERT_TRUE(lane.ended());
  EXPECT_EQ(lane.ended()->how, ending::broken);
}

TEST(ShmLane, EndsOnAnInvalidPosition) {
  for (const std::uint64_t posted :
       {std::uint64_t{few_slots + 1}, ~std::uint64_t{0}}) {
    const shm_grounds grounds;
    auto lanes = lanes_over(grounds, 0);
    grounds.right->mine.header().queues[0].posted = posted;
    EXPECT_TRUE(is_broken(*lanes.left));
  }
}

TEST(ShmLane, EndsOnAnInvalidLength) {
  const shm_grounds grounds;
  auto lanes = lanes_over(grounds, 0);
  grounds.right->mine.slot(0, 0).bytes = most_parcel_bytes + 1;
  grounds.right->mine.header().queues[0].posted = 1;
  EXPECT_TRUE(is_broken(*lanes.left));
}

TEST(ShmLane, EndsWhenThePeerPopsWhatWasNotPosted) {
  const shm_grounds grounds;
  auto lanes = lanes_over(grounds, 0);
  grounds.right->mine.header().queues[0].popped = few_slots + 1;
  for (std::uint32_t i = 0; i < few_slots; ++i)
    ASSERT_TRUE(lanes.left->post(head_of(i), bytes_of(i, 1)));
  EXPECT_TRUE(lanes.left->room().empty());
  ASSERT_TRUE(lanes.left->ended());
  EXPECT_EQ(lanes.left->ended()->how, ending::broken);
}

TEST(ShmLane, SurvivesAnythingItsPeerWrites) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  // sometimes a plausible number
  const auto number = [&](std::uint64_t near) -> std::uint64_t {
    return random() % 4 == 0 ? random() : near + random() % (2 * few_slots);
  };
  std::vector<std::byte> into(most_parcel_bytes);
  std::vector<pollfd> watched;
  std::size_t taken = 0, broken = 0;
  for (int life = 0; life < 300; ++life) {
    const shm_grounds grounds;
    auto lanes = lanes_over(grounds, 0);
    auto& me = *lanes.left;
    auto& peer = grounds.right->mine;
    auto& says = peer.header().queues[0];
    for (std::uint64_t turn = 0; turn < 50 && !me.ended(); ++turn) {
      says.posted = number(says.posted);
      says.popped = random() % 2 == 0 ? number(0) : turn;
      says.parcel_wanted = static_cast<std::uint32_t>(random());
      says.room_wanted = static_cast<std::uint32_t>(random());
      peer.slot(0, random() % few_slots).bytes =
        static_cast<std::uint32_t>(random() % (most_parcel_bytes * 5 / 4));
      while (me.front() != nullptr) {
        ASSERT_LE(me.front_bytes(), most_parcel_bytes);
        ASSERT_TRUE(me.fetch(into));
        me.pop();
        ++taken;
      }
      me.post(head_of(turn), bytes_of(turn, 16));
      lane* const only[]{&me};
      sleep_on(only, std::chrono::seconds{0}, watched);
    }
    if (me.ended()) {
      EXPECT_EQ(me.ended()->how, ending::broken);
      ++broken;
    }
  }
  EXPECT_GT(taken, 0u);
  EXPECT_GT(broken, 0u);
}

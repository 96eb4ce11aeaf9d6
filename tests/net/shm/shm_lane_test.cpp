#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/net/shm/sealed_file.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

std::size_t size_of(int fd) {
  return static_cast<std::size_t>(::lseek(fd, 0, SEEK_END));
}

std::string refusal(int fd, std::uint32_t slots, std::uint32_t lanes = 2) {
  try {
    const shm_view view{fd, lanes, slots};
    return {};
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

} // namespace

TEST(ShmSegment, CannotBeWrittenOrShrunkByItsReceiver) {
  const shm_segment own{2, few_slots};
  const auto fd = own.descriptor();
  const auto bytes = size_of(fd);
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_EQ(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
            MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  EXPECT_EQ(refusal(fd, few_slots), "");
}

TEST(ShmSegment, RejectsDescriptorsThatAreNoSealedMemfdOfThatSize) {
  const shm_segment own{2, few_slots};
  const auto bytes = size_of(own.descriptor());
  EXPECT_NE(refusal(file_of(bytes, 0).get(), few_slots).find("F_SEAL_SHRINK"),
            std::string::npos);
  EXPECT_NE(refusal(file_of(bytes - 1, F_SEAL_SHRINK).get(), few_slots)
              .find(std::to_string(bytes - 1) + " bytes"),
            std::string::npos);
  EXPECT_NE(refusal(own.descriptor(), few_slots + 1), "");
  EXPECT_NE(refusal(own.descriptor(), few_slots, 1), "");
  EXPECT_NE(refusal(own.descriptor(), few_slots, 3), "");
  const descriptor file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  EXPECT_NE(refusal(file.get(), few_slots), "");
  EXPECT_NE(refusal(-1, few_slots), "");
}

TEST(ShmLane, ViewsPacketsInPlace) {
  const shm_contexts contexts;
  auto lanes = shm_lanes_over(contexts, 1);
  ASSERT_TRUE(lanes.left->post(numbered_header(7), bytes_of(7, 1000)));
  ASSERT_NE(lanes.right->front(), nullptr);
  const auto seen = lanes.right->view();
  EXPECT_EQ(std::vector(seen.begin(), seen.end()), bytes_of(7, 1000));
  EXPECT_EQ(seen.data(),
            contexts.right->peer_segment.slot(1, 0).payload.data());
}

TEST(ShmSegment, RejectsANumberOfLanesOutOfRange) {
  EXPECT_THROW((shm_segment{0, few_slots}), std::logic_error);
  EXPECT_THROW((shm_segment{max_lanes + 1, few_slots}), std::logic_error);
}

TEST(ShmLane, RejectsAQueueThatTheSegmentsDoNotHave) {
  const shm_contexts contexts{few_slots, false, 3};
  EXPECT_NO_THROW(shm_lanes_over(contexts, 2));
  EXPECT_THROW(shm_lanes_over(contexts, 3), std::out_of_range);
}

TEST(ShmLane, SeesOnlyItsOwnQueue) {
  const shm_contexts contexts;
  auto contributions = shm_lanes_over(contexts, 0),
       results = shm_lanes_over(contexts, 1);
  ASSERT_TRUE(contributions.left->post(numbered_header(1), bytes_of(1, 10)));
  EXPECT_EQ(results.right->front(), nullptr);
  ASSERT_TRUE(results.left->post(numbered_header(2), bytes_of(2, 10)));
  ASSERT_NE(results.right->front(), nullptr);
  EXPECT_EQ(*results.right->front(), numbered_header(2));
  ASSERT_NE(contributions.right->front(), nullptr);
  EXPECT_EQ(*contributions.right->front(), numbered_header(1));
}

TEST(ShmLane, LosesNoEventWhenLanesShareANotifier) {
  const shm_contexts contexts;
  auto contributions = shm_lanes_over(contexts, 0),
       results = shm_lanes_over(contexts, 1);
  lane* const both[]{contributions.right.get(), results.right.get()};
  std::vector<pollfd> watched;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(contributions.right->arm(watched));
    ASSERT_TRUE(results.right->arm(watched));
    ASSERT_TRUE(results.left->post(numbered_header(i), bytes_of(i, 1)));
    ASSERT_TRUE(contributions.left->post(numbered_header(i), bytes_of(i, 1)));
    contributions.right->disarm(); // clears the notifier that both lanes use
    results.right->disarm();
    EXPECT_TRUE(wait_any(both, std::chrono::seconds{0}, watched));
    ASSERT_NE(contributions.right->front(), nullptr);
    contributions.right->pop();
    EXPECT_TRUE(wait_any(both, std::chrono::seconds{0}, watched));
    ASSERT_NE(results.right->front(), nullptr);
    results.right->pop();
    watched.clear();
  }
}

TEST(ShmLane, EndsOnBytesOnItsStream) {
  const shm_contexts contexts;
  auto [left, right] = connected_streams();
  shm_lane lane{contexts.left, 0, std::move(left)};
  const std::byte some[3]{};
  right->write_some(some);
  EXPECT_TRUE(wait_for_event(lane));
  ASSERT_TRUE(lane.closed());
  EXPECT_EQ(lane.closed()->cause, close_reason::protocol_error);
}

TEST(ShmLane, EndsOnAnInvalidPosition) {
  for (const std::uint64_t posted :
       {std::uint64_t{few_slots + 1}, ~std::uint64_t{0}}) {
    const shm_contexts contexts;
    auto lanes = shm_lanes_over(contexts, 0);
    contexts.right->own_segment.header().queues[0].posted = posted;
    EXPECT_TRUE(is_broken(*lanes.left));
  }
}

TEST(ShmLane, EndsOnAnInvalidLength) {
  const shm_contexts contexts;
  auto lanes = shm_lanes_over(contexts, 0);
  contexts.right->own_segment.slot(0, 0).bytes = max_packet_bytes + 1;
  contexts.right->own_segment.header().queues[0].posted = 1;
  EXPECT_TRUE(is_broken(*lanes.left));
}

TEST(ShmLane, EndsWhenThePeerPopsWhatWasNotPosted) {
  const shm_contexts contexts;
  auto lanes = shm_lanes_over(contexts, 0);
  contexts.right->own_segment.header().queues[0].popped = few_slots + 1;
  for (std::uint32_t i = 0; i < few_slots; ++i)
    ASSERT_TRUE(lanes.left->post(numbered_header(i), bytes_of(i, 1)));
  EXPECT_TRUE(lanes.left->reserve().empty());
  ASSERT_TRUE(lanes.left->closed());
  EXPECT_EQ(lanes.left->closed()->cause, close_reason::protocol_error);
}

TEST(ShmLane, SurvivesAnythingItsPeerWrites) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  // In three of four calls returns `near` or a slightly larger number, else any
  // number.
  const auto number = [&](std::uint64_t near) -> std::uint64_t {
    return random() % 4 == 0 ? random() : near + random() % (2 * few_slots);
  };
  std::vector<std::byte> into(max_packet_bytes);
  std::vector<pollfd> watched;
  std::size_t taken = 0, broken = 0;
  for (int life = 0; life < 300; ++life) {
    const shm_contexts contexts;
    auto lanes = shm_lanes_over(contexts, 0);
    auto& own_lane = *lanes.left;
    auto& peer = contexts.right->own_segment;
    auto& peer_queue = peer.header().queues[0];
    for (std::uint64_t turn = 0; turn < 50 && !own_lane.closed(); ++turn) {
      peer_queue.posted = number(peer_queue.posted);
      peer_queue.popped = random() % 2 == 0 ? number(0) : turn;
      peer_queue.packet_wanted = static_cast<std::uint32_t>(random());
      peer_queue.space_wanted = static_cast<std::uint32_t>(random());
      peer.slot(0, random() % few_slots).bytes =
        static_cast<std::uint32_t>(random() % (max_packet_bytes * 5 / 4));
      while (own_lane.front() != nullptr) {
        ASSERT_LE(own_lane.front_bytes(), max_packet_bytes);
        ASSERT_TRUE(own_lane.fetch(into));
        own_lane.pop();
        ++taken;
      }
      own_lane.post(numbered_header(turn), bytes_of(turn, 16));
      lane* const only[]{&own_lane};
      wait_any(only, std::chrono::seconds{0}, watched);
    }
    if (own_lane.closed()) {
      EXPECT_EQ(own_lane.closed()->cause, close_reason::protocol_error);
      ++broken;
    }
  }
  EXPECT_GT(taken, 0u);
  EXPECT_GT(broken, 0u);
}

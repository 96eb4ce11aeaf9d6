#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/net/shm/sealed_file.hpp"
#include "troupe/tests/support/sanitizers.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/resource.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t large = 64 * 1024;

bool is_refused(int fd) {
  try {
    const shm_arena_view view{fd};
    return false;
  } catch (const std::runtime_error&) {
    return true;
  }
}

/// A lane whose ends have arenas, so that they can post zero-copy.
struct ShmZeroCopy : ::testing::Test {
  const shm_contexts contexts{few_slots, true};
  connected_lanes lanes = shm_lanes_over(contexts, 0);

  /// Returns bytes of the left process's arena.
  std::span<std::byte> arena_bytes_at(std::size_t begin,
                                      std::size_t size) const {
    return contexts.left->own_arena->pages().subspan(begin, size);
  }
};

} // namespace

TEST(ShmArena, CannotBeWrittenByItsReceiver) {
  const shm_arena own{4 * page};
  const shm_arena_view theirs{own.descriptor()};
  own.pages()[page + 3] = std::byte{7};
  EXPECT_EQ(theirs.span_at(page + 3, 1)[0], std::byte{7});
  EXPECT_EQ(::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED,
                   own.descriptor(), 0),
            MAP_FAILED);
  EXPECT_LT(::pwrite(own.descriptor(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(own.descriptor(), 0), 0);
}

TEST(ShmArena, ReportsTheOffsetOfBytesInIt) {
  const shm_arena own{4 * page};
  const auto all = own.pages();
  EXPECT_EQ(own.offset_of(all.subspan(64, 100)), 64u);
  EXPECT_EQ(own.offset_of(all.subspan(page)), page);
  // the first byte of an arena is never sent, so 0 means "no offset"
  EXPECT_EQ(own.offset_of(all), 0u);
  EXPECT_EQ(own.offset_of({all.data() + 3 * page, page + 1}), 0u);
  const std::vector<std::byte> other(10);
  EXPECT_EQ(own.offset_of(other), 0u);
}

TEST(ShmArena, HasNoBytesBeyondItsEnd) {
  const shm_arena own{4 * page};
  const shm_arena_view theirs{own.descriptor()};
  EXPECT_EQ(theirs.span_at(0, 4 * page).size(), 4 * page);
  EXPECT_TRUE(theirs.span_at(1, 4 * page).empty());
  EXPECT_TRUE(theirs.span_at(4 * page, 1).empty());
  EXPECT_TRUE(theirs.span_at(~std::uint64_t{0}, 2).empty());
}

TEST(ShmArena, RejectsDescriptorsThatAreNoSealedMemfd) {
  EXPECT_FALSE(is_refused(file_of(page, F_SEAL_SHRINK).get()));
  EXPECT_TRUE(is_refused(file_of(page, 0).get()));
  EXPECT_TRUE(is_refused(file_of(0, F_SEAL_SHRINK).get()));
  EXPECT_TRUE(is_refused(-1));
}

TEST(ShmArena, ReservesAddressesForTheMachinesMemory) {
  const shm_arena own;
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  EXPECT_EQ(own.pages().size(), pages * page);
  own.pages().back() = std::byte{1};
  EXPECT_EQ(shm_arena_view{own.descriptor()}.span_at(pages * page - 1, 1)[0],
            std::byte{1});
}

TEST(ShmArena, FailsBeyondTheFileSizeLimit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit less{64 * page, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
  // The arena's constructor checks RLIMIT_FSIZE. Without that check, SIGXFSZ
  // would end the process.
  EXPECT_THROW(shm_arena{65 * page}, std::runtime_error);
  EXPECT_NO_THROW(shm_arena{64 * page});
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

/// Limits the address space to what this process uses, and some more.
class address_limit {
public:
  explicit address_limit(std::size_t more) {
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    std::size_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;
    const rlimit less{pages * page + more, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &less), 0);
  }
  ~address_limit() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }
  address_limit(const address_limit&) = delete;
  address_limit& operator=(const address_limit&) = delete;

private:
  rlimit before_{};
};

TEST(ShmArena, LeavesAddressSpaceToTheThreads) {
  if (troupe::test::slowness > 1)
    GTEST_SKIP() << "a sanitizer needs more address space";
  constexpr std::size_t mib = std::size_t{1} << 20;
  const address_limit limit{256 * mib};
  EXPECT_NO_THROW(shm_arena{32 * mib});
  EXPECT_THROW(shm_arena{128 * mib}, std::runtime_error);
}

TEST_F(ShmZeroCopy, ViewsThePayloadInTheSendersArena) {
  const auto payload = arena_bytes_at(page, large);
  std::ranges::copy(bytes_of(1, large), payload.begin());
  ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(1), payload));
  ASSERT_NE(lanes.right->front(), nullptr);
  EXPECT_EQ(*lanes.right->front(), numbered_header(1));
  ASSERT_EQ(lanes.right->front_bytes(), large);
  EXPECT_EQ(lanes.right->view().data(),
            contexts.right->peer_arena->span_at(page, 1).data());
  std::vector<std::byte> into(large);
  EXPECT_TRUE(lanes.right->fetch(into));
  EXPECT_EQ(into, bytes_of(1, large));
}

TEST_F(ShmZeroCopy, IsReleasedWhenTheReaderHasPoppedIt) {
  ASSERT_TRUE(lanes.left->post(numbered_header(0), bytes_of(0, 10)));
  EXPECT_TRUE(lanes.left->flush()); // the payload was copied
  ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(1),
                                         arena_bytes_at(page, large)));
  ASSERT_TRUE(lanes.left->post(numbered_header(2), bytes_of(2, 10)));
  for (std::uint64_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(lanes.left->flush());
    ASSERT_NE(lanes.right->front(), nullptr);
    EXPECT_EQ(*lanes.right->front(), numbered_header(i));
    lanes.right->pop();
  }
  EXPECT_TRUE(lanes.left->flush());
}

TEST_F(ShmZeroCopy, WakesTheSenderWhenItIsReleased) {
  ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(1),
                                         arena_bytes_at(page, large)));
  ASSERT_FALSE(lanes.left->flush());
  std::vector<pollfd> watched;
  ASSERT_TRUE(lanes.left->arm(watched));
  ASSERT_NE(lanes.right->front(), nullptr);
  lanes.right->pop();
  EXPECT_EQ(::poll(watched.data(), watched.size(), 0), 1);
  lanes.left->disarm();
  EXPECT_TRUE(flush_eventually(*lanes.left));
}

TEST_F(ShmZeroCopy, CopiesPayloadsThatAreSmallOrOutsideTheArena) {
  const auto small = arena_bytes_at(page, 1000);
  std::ranges::copy(bytes_of(1, 1000), small.begin());
  const auto elsewhere = bytes_of(2, large);
  ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(1), small));
  ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(2), elsewhere));
  EXPECT_TRUE(lanes.left->flush());
  small[0] ^= std::byte{1};
  packet_header header{};
  EXPECT_EQ(take_eventually(*lanes.right, header), bytes_of(1, 1000));
  EXPECT_EQ(take_eventually(*lanes.right, header), elsewhere);
}

TEST_F(ShmZeroCopy, IsLostIfTheSenderEndsTheLaneBeforeItIsPopped) {
  ASSERT_TRUE(lanes.left->post(numbered_header(1), bytes_of(1, 10)));
  for (const auto number : {2u, 3u})
    ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(number),
                                           arena_bytes_at(page, large)));
  ASSERT_TRUE(lanes.left->post(numbered_header(4), bytes_of(4, 10)));
  std::vector<std::byte> into(large);
  const auto read_front = [&] {
    return lanes.right->front() && lanes.right->fetch(into);
  };
  ASSERT_TRUE(read_front());
  EXPECT_TRUE(lanes.right->is_intact());
  lanes.right->pop();
  ASSERT_TRUE(read_front());
  EXPECT_TRUE(lanes.right->is_intact()) << "the sender keeps the payload";
  lanes.right->pop();
  ASSERT_TRUE(read_front());
  lanes.left.reset();
  EXPECT_FALSE(lanes.right->is_intact());
  EXPECT_EQ(lanes.right->front(), nullptr);
  ASSERT_TRUE(lanes.right->closed());
  EXPECT_EQ(lanes.right->closed()->cause, close_reason::closed);
  EXPECT_FALSE(lanes.right->is_intact());
}

TEST_F(ShmZeroCopy, IsNotLostIfItWasCopied) {
  const auto elsewhere = bytes_of(1, large);
  ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(1), elsewhere));
  lanes.left.reset();
  std::vector<std::byte> into(large);
  ASSERT_TRUE(lanes.right->front());
  ASSERT_TRUE(lanes.right->fetch(into));
  EXPECT_TRUE(lanes.right->is_intact());
  EXPECT_EQ(into, elsewhere);
}

TEST_F(ShmZeroCopy, HoldsNoMorePacketsThanSlots) {
  for (std::uint32_t i = 0; i < few_slots; ++i)
    ASSERT_TRUE(lanes.left->post_zero_copy(numbered_header(i),
                                           arena_bytes_at(page, large)));
  EXPECT_FALSE(lanes.left->post_zero_copy(numbered_header(few_slots),
                                          arena_bytes_at(page, large)));
}

TEST_F(ShmZeroCopy, EndsTheLaneOnAnOffsetOutsideTheArena) {
  auto& slot = contexts.right->own_segment.slot(0, 0);
  slot.bytes = large;
  slot.offset = shm_contexts::arena_bytes - large + 1;
  contexts.right->own_segment.header().queues[0].posted = 1;
  EXPECT_TRUE(is_broken(*lanes.left));
}

TEST(ShmLane, EndsOnAnOffsetInAnArenaThatIsNotMapped) {
  const shm_contexts contexts;
  auto lanes = shm_lanes_over(contexts, 0);
  contexts.right->own_segment.slot(0, 0).bytes = 8;
  contexts.right->own_segment.slot(0, 0).offset = page;
  contexts.right->own_segment.header().queues[0].posted = 1;
  EXPECT_TRUE(is_broken(*lanes.left));
}

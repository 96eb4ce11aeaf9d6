#include "troupe/tests/strategies/collective/process_parts.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

constexpr auto contribution_lane = lane_id::contributions;

/// Process 0 of two processes, and queues of one packet. Process 0 hosts
/// `local` replicas.
struct sending {
  explicit sending(std::uint32_t local)
    : parts{placement::contiguous({local, 1}), 0} {}

  std::deque<queued_packet>& queue(lane_id lane = contribution_lane) {
    return queues.between(0, 1, lane);
  }
  bool send(lane_id lane = contribution_lane) {
    return parts.out.send(transport, 1, lane);
  }

  process_parts parts;
  packet_queues queues{2, 1, true, 1};
  queue_transport transport{queues, 0};
};

} // namespace

TEST(Sender, WaitsWhileTheQueueIsFull) {
  sending setup{1};
  setup.parts.sum(4, inputs_of<float>(1, 8, 1));
  setup.parts.sum(5, inputs_of<float>(1, 8, 2));
  EXPECT_TRUE(setup.send());
  EXPECT_FALSE(setup.send()) << "the queue is full";
  EXPECT_EQ(read(setup.queue().front().header).bucket, 4u);
  EXPECT_EQ(setup.parts.positions.sent(1, contribution_lane),
            (cursor{1, 0, 0}));
  setup.queue().clear();
  EXPECT_TRUE(setup.send());
  EXPECT_EQ(read(setup.queue().front().header).bucket, 5u);
  setup.queue().clear();
  EXPECT_FALSE(setup.send()) << "there is no packet left";
}

TEST(Sender, AddsLocalContributionsInTheTransport) {
  sending setup{2};
  const auto inputs = inputs_of<float>(2, 8, 1);
  setup.parts.sum(4, inputs);
  setup.queue().push_back({});
  EXPECT_FALSE(setup.send()) << "the queue is full";
  setup.queue().clear();
  EXPECT_TRUE(setup.send());
  const auto wanted = oracle(inputs);
  const auto sent = setup.queue().front().bytes();
  ASSERT_EQ(sent.size(), wanted.bytes());
  EXPECT_EQ(std::memcmp(sent.data(), wanted.raw(), sent.size()), 0);
  EXPECT_EQ(read(setup.queue().front().header).end, 2u);
}

TEST(Sender, KeepsTensorsThatItSendsWithoutACopy) {
  for (const bool large : {true, false}) {
    sending setup{1};
    const auto input = tensor::full({large ? 10'000 : 8}, 1);
    setup.parts.sum(4, {input});
    EXPECT_TRUE(setup.send());
    setup.parts.log.abort();
    EXPECT_EQ(input.unique(), !large);
  }
}

TEST(Sender, CompletesAnAllToAllItemWhenThePeerHasItsPackets) {
  sending setup{1};
  const auto& op = setup.parts.sum(4, inputs_of<float>(1, 8, 1));
  ASSERT_EQ(op.remaining, 2u);
  EXPECT_TRUE(setup.send());
  EXPECT_EQ(op.remaining, 1u);
}

TEST(Sender, SendsTheSpecOfAGatheredTensorFirst) {
  sending setup{1};
  const auto input = tensor::full({2, 3}, 1, dtype::int32);
  setup.parts.gather(4, {input});
  EXPECT_TRUE(setup.send());
  const auto bytes = setup.queue().front().bytes();
  gather_spec received{};
  ASSERT_EQ(bytes.size(), received.size());
  std::ranges::copy(bytes, received.begin());
  tensor_spec spec;
  ASSERT_TRUE(read(received, spec));
  EXPECT_EQ(spec, input.spec());
}

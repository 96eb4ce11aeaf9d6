#include "troupe/tests/strategies/collective/process_parts.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

constexpr auto contributions = lane_id::contributions;
constexpr auto results = lane_id::results;

/// Process 0 of two processes. Tests fill the queues from process 1.
struct receiving {
  std::deque<queued_packet>& queue(lane_id lane) {
    return queues.between(1, 0, lane);
  }
  /// Puts the packet into the queue that the receiver expects next.
  void push_expected(lane_id lane, const tensor& data) {
    const queue_id id{lane, 1, 0};
    auto next = parts.positions.received(1, lane);
    ASSERT_TRUE(parts.order.find(next, id));
    queue(lane).push_back({write(parts.order.header_of(next, id)),
                           {data.raw(), data.raw() + data.bytes()}});
  }
  /// Changes the header of the front packet.
  template <class Change>
  void change(lane_id lane, const Change& change) {
    auto header = read(queue(lane).front().header);
    change(header);
    queue(lane).front().header = write(header);
  }
  bool receive(lane_id lane) { return parts.in.receive(transport, 1, lane); }

  process_parts parts{placement::contiguous({1, 1}), 0};
  packet_queues queues{2, 9, true, 1};
  queue_transport transport{queues, 0};
  tensors inputs = inputs_of<float>(2, 8, 1);
};

} // namespace

TEST(Receiver, KeepsAContributionUntilTheChunkIsAdded) {
  receiving setup;
  const auto& op = setup.parts.sum(4, setup.inputs);
  EXPECT_FALSE(setup.parts.in.add_chunk(setup.transport));
  setup.push_expected(contributions, setup.inputs[1]);
  EXPECT_TRUE(setup.receive(contributions));
  EXPECT_TRUE(setup.parts.positions.chunk_arrived(1));
  EXPECT_EQ(setup.queue(contributions).size(), 1u);
  EXPECT_FALSE(setup.receive(contributions)) << "it was received already";
  EXPECT_TRUE(setup.parts.in.add_chunk(setup.transport));
  EXPECT_TRUE(setup.queue(contributions).empty());
  EXPECT_FALSE(setup.parts.positions.chunk_arrived(1));
  EXPECT_TRUE(same_bits(op.output, oracle(setup.inputs)));
  EXPECT_EQ(op.remaining, 1u) << "the contribution is not sent";
}

TEST(Receiver, StoresAResultInItsChunk) {
  receiving setup;
  setup.inputs = inputs_of<float>(2, 10'000, 1);
  const auto& op = setup.parts.sum(4, setup.inputs);
  ASSERT_EQ(op.chunks.count, 3u);
  const auto sum = tensor::full({4096}, 5);
  setup.push_expected(results, sum);
  EXPECT_TRUE(setup.receive(results));
  EXPECT_EQ(op.output.data<float>()[4096], 5) << "process 1 adds chunk 1";
  EXPECT_EQ(op.output.data<float>()[8191], 5);
  EXPECT_EQ(op.remaining, 2u);
}

TEST(Receiver, LeavesPacketsOfLaterGenerationsAndOperations) {
  receiving setup;
  setup.parts.sum(4, setup.inputs);
  setup.push_expected(contributions, setup.inputs[1]);
  setup.change(contributions, [](auto& header) { header.generation = 2; });
  EXPECT_FALSE(setup.receive(contributions));
  EXPECT_EQ(setup.queue(contributions).size(), 1u);
  EXPECT_FALSE(setup.parts.in.error());
}

TEST(Receiver, DiscardsStalePackets) {
  receiving setup;
  setup.parts.sum(4, setup.inputs);
  const std::function<void(packet_header&)> older[]{
    [](packet_header& header) { header.generation = 0; },
    [](packet_header& header) { header.step = 2; }};
  for (const auto& change : older) {
    setup.push_expected(contributions, setup.inputs[1]);
    setup.change(contributions, change);
    EXPECT_TRUE(setup.receive(contributions));
    EXPECT_TRUE(setup.queue(contributions).empty());
    EXPECT_FALSE(setup.parts.positions.chunk_arrived(1));
  }
  EXPECT_FALSE(setup.parts.in.error());
}

TEST(Receiver, RejectsUnexpectedHeaders) {
  const std::function<void(packet_header&)> changes[]{
    [](packet_header& header) { ++header.step; },
    [](packet_header& header) { ++header.sequence; },
    [](packet_header& header) { ++header.bucket; },
    [](packet_header& header) { ++header.elements; },
    [](packet_header& header) { ++header.chunk; },
    [](packet_header& header) { ++header.begin; },
    [](packet_header& header) { header.sender = 0; },
    [](packet_header& header) { header.type = dtype::float64; },
    [](packet_header& header) { header.timeout = 9; }};
  for (const auto& change : changes) {
    receiving setup;
    setup.parts.sum(4, setup.inputs);
    setup.push_expected(contributions, setup.inputs[1]);
    setup.change(contributions, change);
    EXPECT_FALSE(setup.receive(contributions));
    ASSERT_TRUE(setup.parts.in.error());
    EXPECT_EQ(setup.parts.in.error()->process, 1u);
    EXPECT_FALSE(setup.parts.positions.chunk_arrived(1));
    setup.parts.in.start_generation();
    EXPECT_FALSE(setup.parts.in.error());
  }
}

TEST(Receiver, RejectsPayloadsOfAnotherSize) {
  for (const std::size_t bytes : {31, 33, 0}) {
    receiving setup;
    setup.parts.sum(4, setup.inputs);
    setup.push_expected(contributions, setup.inputs[1]);
    setup.queue(contributions).front().copy.resize(bytes);
    EXPECT_FALSE(setup.receive(contributions));
    ASSERT_TRUE(setup.parts.in.error());
    EXPECT_EQ(setup.parts.in.error()->reason,
              "it sent " + std::to_string(bytes)
                + " bytes where 32 were expected");
  }
}

TEST(Receiver, AllocatesGatheredTensorsOfValidSpecsOnly) {
  receiving setup;
  auto& op = setup.parts.gather(4, setup.inputs);
  auto spec = write(setup.inputs[1].spec());
  setup.push_expected(contributions, tensor::full({72}, 0, dtype::uint8));
  std::ranges::copy(spec, setup.queue(contributions).front().copy.begin());
  EXPECT_TRUE(setup.receive(contributions));
  EXPECT_EQ(op.gathered[1].spec(), setup.inputs[1].spec());
  setup.push_expected(contributions, setup.inputs[1]);
  EXPECT_TRUE(setup.receive(contributions));
  EXPECT_TRUE(same_bits(op.gathered[1], setup.inputs[1]));
  EXPECT_TRUE(op.is_complete());
  auto& next = setup.parts.gather(5, setup.inputs);
  setup.push_expected(contributions, tensor::full({72}, 255, dtype::uint8));
  EXPECT_FALSE(setup.receive(contributions));
  EXPECT_TRUE(setup.parts.in.error());
  EXPECT_FALSE(next.gathered[1]);
}

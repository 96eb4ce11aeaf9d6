#include "troupe/tests/strategies/collective/process_parts.hpp"
#include "troupe/tests/strategies/collective/rings.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace {

using ids = std::vector<std::uint32_t>;
constexpr auto contribution_lane = lane_id::contributions;
constexpr auto result_lane = lane_id::results;

const auto three = placement::contiguous({2, 1, 1});

/// Elements of a bucket of six chunks.
constexpr std::size_t six_chunks = 6 * 4096;

tensors inputs_of_ones(std::size_t elements) {
  return tensors(4, tensor::full({std::int64_t(elements)}, 1));
}

std::optional<payload> next_payload(process_parts& parts, lane_id lane,
                                    std::uint32_t peer) {
  const queue_id queue{lane, parts.placed.process, peer};
  auto next = parts.positions.sent(peer, lane);
  EXPECT_TRUE(parts.order.find(next, queue));
  const auto& op = parts.log[next.operation_number];
  return parts.order.schedule_of(op).payload_of(
    op, next, parts.order.header_of(next, queue), queue, parts.positions);
}

destination next_destination(process_parts& parts, lane_id lane,
                             std::uint32_t peer) {
  const queue_id queue{lane, peer, parts.placed.process};
  auto next = parts.positions.received(peer, lane);
  EXPECT_TRUE(parts.order.find(next, queue));
  auto& op = parts.log[next.operation_number];
  return parts.order.schedule_of(op).destination_of(
    op, next, parts.order.header_of(next, queue), queue, parts.positions);
}

} // namespace

// -- tree ---------------------------------------------------------------------

TEST(TreeSchedule, SendsEachChunkToTheProcessThatAddsIt) {
  process_parts parts{three, 1};
  parts.sum(0, inputs_of_ones(six_chunks));
  EXPECT_EQ(chunks_of(parts.headers_of({contribution_lane, 1, 0})),
            (ids{0, 3}));
  EXPECT_EQ(chunks_of(parts.headers_of({contribution_lane, 1, 2})),
            (ids{2, 5}));
  EXPECT_EQ(chunks_of(parts.headers_of({result_lane, 1, 0})), (ids{1, 4}));
  parts.sum(1, inputs_of_ones(
                 six_chunks)); // the next collective begins a process later
  EXPECT_EQ(chunks_of(parts.headers_of({contribution_lane, 1, 0})),
            (ids{0, 3, 2, 5}));
}

TEST(TreeSchedule, SendsOneContributionPerSubtree) {
  process_parts parts{placement{{{0, 1, 2}, {3}}}, 0};
  parts.sum(0, inputs_of_ones(16'384));
  const auto headers = parts.headers_of({contribution_lane, 0, 1});
  ASSERT_GE(headers.size(), 2u);
  EXPECT_EQ(headers[0].begin, 0u);
  EXPECT_EQ(headers[0].end, 2u);
  EXPECT_EQ(headers[1].begin, 2u);
  EXPECT_EQ(headers[1].end, 3u);
  EXPECT_EQ(headers[0].chunk, headers[1].chunk);
  EXPECT_EQ(next_payload(parts, contribution_lane, 1)->how, payload::kind::sum);
  EXPECT_EQ(next_payload(parts, contribution_lane, 1)->summands.size(), 2u);
  parts.positions.sent(1, contribution_lane).i = 1;
  EXPECT_EQ(next_payload(parts, contribution_lane, 1)->how,
            payload::kind::zero_copy);
}

TEST(TreeSchedule, SendsAResultWhenItsChunkWasAdded) {
  process_parts parts{three, 1};
  parts.sum(0, inputs_of_ones(six_chunks));
  EXPECT_FALSE(next_payload(parts, result_lane, 0));
  parts.positions.next_to_add = {0, 1, 0};
  EXPECT_EQ(next_payload(parts, result_lane, 0)->how, payload::kind::zero_copy);
  parts.positions.sent(0, result_lane).j = 1;
  EXPECT_FALSE(next_payload(parts, result_lane, 0));
}

TEST(TreeSchedule, CopiesTheContributionsOfAnAllToAllBucket) {
  process_parts parts{three, 1};
  const auto& op = parts.sum(0, inputs_of_ones(8));
  ASSERT_TRUE(op.chunks.all_to_all);
  EXPECT_EQ(op.remaining, 3u) << "the chunk, and two peers";
  EXPECT_EQ(next_payload(parts, contribution_lane, 0)->how,
            payload::kind::copy);
  EXPECT_TRUE(parts.headers_of({result_lane, 1, 0}).empty());
  auto& next = parts.positions.sent(0, contribution_lane);
  const queue_id queue{contribution_lane, 1, 0};
  EXPECT_TRUE(parts.order.schedule_of(op).advance(op, next, queue));
}

TEST(TreeSchedule, CollectsContributionsAndStoresResults) {
  process_parts parts{placement{{{0, 1, 2}, {3}}}, 1};
  auto& op = parts.sum(0, inputs_of_ones(16'384));
  auto to = next_destination(parts, contribution_lane, 0);
  EXPECT_EQ(to.how, destination::kind::collect);
  EXPECT_FALSE(to.completes_chunk);
  parts.positions.received(0, contribution_lane).i = 1;
  EXPECT_TRUE(next_destination(parts, contribution_lane, 0).completes_chunk);
  to = next_destination(parts, result_lane, 0);
  EXPECT_EQ(to.how, destination::kind::store);
  EXPECT_EQ(to.into, op.output.raw()) << "process 0 adds chunk 0";
}

TEST(TreeSchedule, NamesPeersWithoutContributionsBeforePeersWithoutResults) {
  process_parts parts{three, 0};
  const auto& op = parts.sum(0, inputs_of_ones(six_chunks));
  const auto silent = [&] {
    return parts.order.schedule_of(op).silent_processes(op, 0, parts.positions);
  };
  EXPECT_EQ(silent(), (ids{1, 2}));
  parts.positions.chunk_arrived(1) = true;
  EXPECT_EQ(silent(), ids{2});
  parts.positions.received(2, contribution_lane) = {1, 0, 0};
  parts.positions.received(2, result_lane) = {1, 0, 0};
  EXPECT_EQ(silent(), ids{1});
}

// -- ring ---------------------------------------------------------------------

TEST(RingSchedule, SendsToTheNextProcessOnly) {
  process_parts parts{three, 1};
  parts.sum(0, inputs_of_ones(six_chunks), ringed);
  EXPECT_TRUE(parts.headers_of({contribution_lane, 1, 0}).empty());
  EXPECT_TRUE(parts.headers_of({result_lane, 1, 0}).empty());
  EXPECT_EQ(chunks_of(parts.headers_of({contribution_lane, 1, 2})),
            (ids{1, 0, 4, 3}));
  EXPECT_EQ(chunks_of(parts.headers_of({result_lane, 1, 2})),
            (ids{2, 1, 5, 4}));
}

TEST(RingSchedule, PassesOverHopsWithoutAChunk) {
  process_parts parts{three, 1};
  parts.sum(0, inputs_of_ones(4),
            ringed); // one chunk, which process 0 sends first
  EXPECT_EQ(chunks_of(parts.headers_of({contribution_lane, 1, 2})), ids{0});
  EXPECT_TRUE(parts.headers_of({result_lane, 1, 2}).empty());
  EXPECT_EQ(chunks_of(parts.headers_of({result_lane, 2, 0})), ids{0});
}

TEST(RingSchedule, ForwardsAContributionWhenItHasArrived) {
  process_parts parts{three, 1};
  parts.sum(0, inputs_of_ones(six_chunks), ringed);
  EXPECT_EQ(next_payload(parts, contribution_lane, 2)->how,
            payload::kind::copy);
  parts.positions.sent(2, contribution_lane) = {0, 0, 1};
  EXPECT_FALSE(next_payload(parts, contribution_lane, 2));
  parts.positions.received(0, contribution_lane) = {0, 0, 1};
  EXPECT_TRUE(next_payload(parts, contribution_lane, 2));
  EXPECT_FALSE(next_payload(parts, result_lane, 2));
  parts.positions.received(0, contribution_lane) = {0, 0, 2};
  EXPECT_TRUE(next_payload(parts, result_lane, 2));
  parts.positions.sent(2, result_lane) = {0, 0, 1};
  EXPECT_FALSE(next_payload(parts, result_lane, 2));
}

TEST(RingSchedule, RejectsAResultBeforeTheContributionWasSent) {
  process_parts parts{three, 1};
  parts.sum(0, inputs_of_ones(six_chunks), ringed);
  EXPECT_EQ(next_destination(parts, contribution_lane, 0).how,
            destination::kind::add);
  // chunk 1 is this process's first contribution
  EXPECT_EQ(next_destination(parts, result_lane, 0).how,
            destination::kind::too_early);
  parts.positions.sent(2, contribution_lane) = {0, 0, 1};
  EXPECT_EQ(next_destination(parts, result_lane, 0).how,
            destination::kind::store);
}

TEST(RingSchedule, NamesTheProcessesBehindTheExpectedPacket) {
  process_parts parts{placement::contiguous({1, 1, 1, 1}), 0};
  const auto& op = parts.sum(0, inputs_of_ones(1 << 20), ringed);
  const auto silent = [&] {
    return parts.order.schedule_of(op).silent_processes(op, 0, parts.positions);
  };
  EXPECT_EQ(silent(), ids{3});
  parts.positions.received(3, contribution_lane) = {0, 0, 1};
  EXPECT_EQ(silent(), ids{2});
  parts.positions.received(3, contribution_lane) = {0, 0, 2};
  EXPECT_EQ(silent(), ids{1});
}

// -- gather -------------------------------------------------------------------

TEST(GatherSchedule, SendsTheSpecAndThePiecesOfEachReplica) {
  process_parts parts{three, 0};
  const auto large = tensor::full({max_packet_bytes / 4 + 1}, 1);
  auto& op = parts.gather(2, {large, tensor::full({0}, 1), {}, {}});
  EXPECT_EQ(op.remaining, 2u);
  const auto headers = parts.headers_of({contribution_lane, 0, 1});
  EXPECT_EQ(chunks_of(headers), (ids{0, 1, 2, 0}));
  EXPECT_EQ(headers[2].begin, 0u);
  EXPECT_EQ(headers[3].begin, 1u);
  EXPECT_TRUE(parts.headers_of({result_lane, 0, 1}).empty());
  EXPECT_EQ(next_payload(parts, contribution_lane, 1)->how,
            payload::kind::spec);
  parts.positions.sent(1, contribution_lane).i = 2;
  EXPECT_EQ(next_payload(parts, contribution_lane, 1)->bytes.size(), 4u);
}

TEST(TreeSchedule, CompletesNoItemByASentContributionOfALargeBucket) {
  process_parts parts{three, 1};
  const auto& op = parts.sum(0, inputs_of_ones(200'000));
  ASSERT_FALSE(op.chunks.all_to_all);
  cursor sent;
  EXPECT_FALSE(parts.order.schedule_of(op).advance(
    op, sent, queue_id{contribution_lane, 1, 0}));
}

TEST(GatherSchedule, CompletesAnItemPerReceivedTensor) {
  process_parts parts{three, 1};
  auto& op = parts.gather(2, inputs_of_ones(3));
  const auto& schedule = parts.order.schedule_of(op);
  const queue_id queue{contribution_lane, 0, 1};
  EXPECT_EQ(next_destination(parts, contribution_lane, 0).how,
            destination::kind::spec);
  op.gathered[0] = tensor::full({3}, 0);
  cursor next;
  EXPECT_FALSE(schedule.advance(op, next, queue));
  EXPECT_EQ(next, (cursor{0, 0, 1}));
  EXPECT_TRUE(schedule.advance(op, next, queue));
  EXPECT_EQ(next, (cursor{0, 1, 0}));
  cursor sent;
  const queue_id own{contribution_lane, 1, 0};
  for (int packets = 0; packets < 2; ++packets)
    EXPECT_FALSE(schedule.advance(op, sent, own)) << "a sent tensor is no item";
}

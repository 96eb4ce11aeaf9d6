#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"

#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::tensor_transfer;
using namespace troupe::tensor_transfer::testing;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20, unit = 16 * 1024;

/// Bytes that a reservation has beyond the elements of one tensor.
constexpr std::size_t overhead = 4096 + 512;

} // namespace

TEST(TensorTransfer, CarriesTheTensorsOfAMessageBitForBit) {
  simulated_pair pair;
  pair.right.in.open_channel(7);
  const tensors sent{numbered_tensor({3, 5}, dtype::float32, 1),
                     numbered_tensor({300'000}, dtype::float64, 2),
                     numbered_tensor({}, dtype::int64, 3),
                     numbered_tensor({2, 2, 2}, dtype::boolean, 4)};
  const auto number = pair.left.out.send(7, 42, sent);
  pair.run();
  ASSERT_EQ(pair.right.error + pair.left.error, "");
  ASSERT_EQ(pair.right.received.size(), 1u);
  const auto& got = pair.right.received[0];
  EXPECT_EQ(got.channel, 7u);
  EXPECT_EQ(got.message, 42u);
  ASSERT_EQ(got.tensors.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_TRUE(same_bits(got.tensors[i], sent[i])) << i;
  EXPECT_EQ(pair.left.deliveries, std::vector{number});
  EXPECT_EQ(pair.left.out.transfers(), 0u);
  EXPECT_EQ(pair.left.out.held_bytes(), 0u);
}

TEST(TensorTransfer, CostsThreePacketsAndThoseOfTheTensorsAndGrants) {
  simulated_pair pair{{.window_bytes = 2 * mib}};
  pair.right.in.open_channel(1);
  pair.left.out.send(1, 1, {bytes_tensor(8 * mib)});
  pair.run();
  // offer, first grant and received; a spec; 32 chunks; a grant for each half
  // of a window after the first window
  EXPECT_EQ(pair.packets, 3u + 1 + 32 + 6);
}

TEST(TensorTransfer, BothProcessesSendAtOnce) {
  simulated_pair pair{{.window_bytes = unit}, 1};
  pair.left.in.open_channel(1);
  pair.right.in.open_channel(1);
  for (std::uint64_t i = 0; i < 5; ++i) {
    pair.left.out.send(1, i, {bytes_tensor(3 * unit, i)});
    pair.right.out.send(1, i, {bytes_tensor(2 * unit, i)});
  }
  pair.run();
  EXPECT_EQ(pair.left.received.size(), 5u);
  EXPECT_EQ(pair.right.received.size(), 5u);
  EXPECT_EQ(pair.left.error + pair.right.error, "");
}

// -- bounded memory -----------------------------------------------------------

TEST(TensorTransfer, AStoppedReceiverStopsTheSenderAtItsWindow) {
  simulated_pair pair{{.window_bytes = unit}, 1000};
  pair.right.in.open_channel(1);
  pair.left.out.send(1, 1, {bytes_tensor(64 * unit)});
  pair.send(pair.left);
  pair.read(pair.right); // the offer
  pair.send(pair.right);
  pair.read(pair.left); // the grant
  // The receiving process stops reading here.
  std::size_t bytes = 0;
  pair.send(pair.left);
  for (const auto& x : pair.to_right)
    if (x.header.kind == packet_kind::chunk)
      bytes += x.payload.size();
  EXPECT_EQ(bytes, unit);
  EXPECT_EQ(pair.send(pair.left), 0u);
}

TEST(TensorTransfer, AStoppedRoleBoundsTheMemoryOfTheReceiver) {
  const receiver_limits limits{.max_channel_bytes = 4 * unit};
  simulated_pair pair{limits};
  pair.right.in.open_channel(1);
  for (std::uint64_t i = 0; i < 100; ++i) // the role releases none of them
    pair.left.out.send(1, i, {bytes_tensor(unit, i)});
  pair.run();
  EXPECT_EQ(pair.right.received.size(), 3u); // 4 and the overheads do not fit
  EXPECT_LE(pair.right.in.reserved_bytes(), limits.max_channel_bytes);
  EXPECT_EQ(pair.right.in.allocated_bytes(), 3 * unit);
  // When the role reads again, the other transfers follow in order.
  for (std::size_t i = 0; i < pair.right.received.size(); ++i) {
    EXPECT_EQ(pair.right.received[i].message, i);
    pair.right.in.release(pair.right.received[i].transfer);
    pair.run();
  }
  EXPECT_EQ(pair.right.received.size(), 100u);
  EXPECT_EQ(pair.right.in.reserved_bytes(), 0u);
  EXPECT_EQ(pair.right.in.allocated_bytes(), 0u);
}

TEST(TensorTransfer, AllocatesOnlyWhatWasGranted) {
  simulated_pair pair{{.max_channel_bytes = unit}};
  pair.left.out.send(1, 1, {bytes_tensor(unit / 2)});
  pair.left.out.send(1, 2, {bytes_tensor(unit / 2)});
  pair.run();
  EXPECT_EQ(pair.right.in.allocated_bytes(), 0u); // the channel is not open
  EXPECT_EQ(pair.right.in.reserved_bytes(), 0u);
  pair.right.in.open_channel(1);
  EXPECT_EQ(pair.right.in.allocated_bytes(), 0u);
  EXPECT_EQ(pair.right.in.reserved_bytes(), unit / 2 + overhead);
  pair.run();
  EXPECT_EQ(pair.right.in.allocated_bytes(), unit / 2);
}

TEST(TensorTransfer, AdmitsATransferLargerThanTheLimitAlone) {
  simulated_pair pair{{.max_channel_bytes = unit, .max_bytes = unit}};
  pair.right.in.open_channel(1);
  pair.left.out.send(1, 1, {bytes_tensor(5 * unit)});
  pair.left.out.send(1, 2, {bytes_tensor(16)});
  pair.run();
  ASSERT_EQ(pair.right.received.size(), 1u);
  pair.right.in.release(pair.right.received[0].transfer);
  pair.run();
  EXPECT_EQ(pair.right.received.size(), 2u);
}

TEST(TensorTransfer, AStoppedRoleDoesNotDelayOtherChannels) {
  simulated_pair pair{{.max_channel_bytes = unit}};
  pair.right.in.open_channel(1);
  pair.right.in.open_channel(2);
  for (std::uint64_t i = 0; i < 10; ++i)
    pair.left.out.send(1, i, {bytes_tensor(unit)});
  pair.left.out.send(2, 99, {bytes_tensor(unit)});
  pair.run();
  ASSERT_EQ(pair.right.received.size(), 2u);
  EXPECT_EQ(pair.right.received[1].message, 99u);
}

TEST(TensorTransfer, BoundsTheMemoryOfAllChannelsTogether) {
  simulated_pair pair{{.max_bytes = 4 * unit}};
  for (std::uint32_t channel = 1; channel <= 20; ++channel) {
    pair.right.in.open_channel(channel);
    pair.left.out.send(channel, 1, {bytes_tensor(unit)});
  }
  pair.run();
  EXPECT_EQ(pair.right.received.size(), 3u);
  EXPECT_EQ(pair.right.in.allocated_bytes(), 3 * unit);
}

TEST(TensorTransfer, SmallerTransfersDoNotPassOneThatWaitsForMemory) {
  simulated_pair pair{{.max_bytes = 4 * unit}};
  for (std::uint32_t channel = 1; channel <= 3; ++channel)
    pair.right.in.open_channel(channel);
  pair.left.out.send(1, 1, {bytes_tensor(unit)});
  pair.run();
  pair.left.out.send(2, 2, {bytes_tensor(4 * unit)});
  pair.left.out.send(3, 3, {bytes_tensor(unit)});
  pair.run();
  ASSERT_EQ(pair.right.received.size(), 1u);
  for (const std::uint64_t message : {2, 3}) {
    pair.right.in.release(pair.right.received.back().transfer);
    pair.run();
    EXPECT_EQ(pair.right.received.back().message, message);
  }
}

TEST(TensorTransfer, OffersABoundedNumberOfTransfers) {
  simulated_pair pair{{}, 2 * max_transfers};
  for (std::uint64_t i = 0; i < 3 * max_transfers; ++i)
    pair.left.out.send(1, i, {bytes_tensor(8)});
  EXPECT_EQ(pair.send(pair.left), max_transfers);
  pair.right.in.open_channel(1);
  pair.run();
  EXPECT_EQ(pair.right.received.size(), 3 * max_transfers);
  EXPECT_EQ(pair.right.error, "");
}

TEST(TensorTransfer, TransfersTakeTurns) {
  simulated_pair pair{{.window_bytes = 100 * unit}};
  pair.right.in.open_channel(1);
  pair.right.in.open_channel(2);
  pair.left.out.send(1, 1, {bytes_tensor(32 * unit)});
  pair.left.out.send(2, 2, {bytes_tensor(unit)});
  pair.run();
  ASSERT_EQ(pair.right.received.size(), 2u);
  EXPECT_EQ(pair.right.received[0].message, 2u); // the small one does not wait
}

// -- ends ---------------------------------------------------------------------

TEST(TensorTransfer, TheSenderCancelsAtAnyTime) {
  for (std::size_t steps = 0; steps < 14; ++steps) {
    simulated_pair pair{{.window_bytes = unit}, 1};
    pair.right.in.open_channel(1);
    const auto number = pair.left.out.send(1, 5, {bytes_tensor(2 * unit)});
    for (std::size_t i = 0; i < steps; ++i) {
      pair.send(pair.left), pair.read(pair.right);
      pair.send(pair.right), pair.read(pair.left);
    }
    const bool over = pair.right.received.size() == 1;
    pair.left.out.cancel(number);
    EXPECT_EQ(pair.left.out.held_bytes(), 0u) << steps;
    pair.run();
    EXPECT_EQ(pair.left.error + pair.right.error, "");
    EXPECT_EQ(pair.left.out.transfers(), 0u) << steps;
    if (!over) {
      EXPECT_EQ(pair.right.in.allocated_bytes(), 0u) << steps;
      EXPECT_EQ(pair.right.in.reserved_bytes(), 0u) << steps;
      EXPECT_EQ(pair.right.cancellations.size(), steps > 0 ? 1u : 0u);
    }
    // The lane carries further transfers.
    pair.left.out.send(1, 6, {bytes_tensor(unit)});
    pair.run();
    EXPECT_EQ(pair.right.received.back().message, 6u) << steps;
  }
}

TEST(TensorTransfer, TheReceiverRefusesAtAnyTime) {
  for (std::size_t steps = 1; steps < 14; ++steps) {
    simulated_pair pair{{.window_bytes = unit}, 2};
    pair.right.in.open_channel(1);
    pair.right.in.open_channel(2);
    const auto number = pair.left.out.send(1, 5, {bytes_tensor(2 * unit)});
    for (std::size_t i = 0; i < steps; ++i) {
      pair.send(pair.left), pair.read(pair.right);
      pair.send(pair.right), pair.read(pair.left);
    }
    const bool over = !pair.right.received.empty();
    pair.send(pair.left); // chunks that cross the refusal
    pair.right.in.close_channel(1);
    EXPECT_EQ(pair.right.in.reserved_bytes(), 0u) << steps;
    EXPECT_EQ(pair.right.in.allocated_bytes(), 0u) << steps;
    pair.run();
    EXPECT_EQ(pair.left.error + pair.right.error, "") << steps;
    EXPECT_EQ(pair.left.refusals.size(), over ? 0u : 1u) << steps;
    EXPECT_EQ(pair.left.out.transfers(), 0u) << number;
    pair.left.out.send(2, 6, {bytes_tensor(unit)});
    pair.run();
    EXPECT_EQ(pair.right.received.back().message, 6u) << steps;
  }
}

TEST(TensorTransfer, BothSidesMayEndATransferAtOnce) {
  simulated_pair pair{{.window_bytes = unit}, 1};
  pair.right.in.open_channel(1);
  const auto number = pair.left.out.send(1, 5, {bytes_tensor(8 * unit)});
  for (int i = 0; i < 4; ++i) {
    pair.send(pair.left), pair.read(pair.right);
    pair.send(pair.right), pair.read(pair.left);
  }
  pair.left.out.cancel(number);
  pair.right.in.close_channel(1);
  pair.send(pair.left), pair.send(pair.right);
  pair.run();
  EXPECT_EQ(pair.left.error + pair.right.error, "");
  EXPECT_EQ(pair.left.out.transfers(), 0u);
  EXPECT_TRUE(pair.left.refusals.empty());
  pair.right.in.open_channel(1);
  for (std::uint64_t i = 0; i < 2 * max_transfers; ++i)
    pair.left.out.send(1, i, {bytes_tensor(8)}); // no number of one is left
  pair.run();
  EXPECT_EQ(pair.right.received.size(), 2 * max_transfers);
}

TEST(TensorTransfer, AChannelClosedBetweenHeaderAndPayloadKeepsTheMemoryAlive) {
  transfer_end right{right_ends};
  simulated_pair pair;
  pair.right.in.open_channel(1);
  pair.left.out.send(1, 5, {bytes_tensor(unit)});
  for (int i = 0; i < 1; ++i) {
    pair.send(pair.left), pair.read(pair.right);
    pair.send(pair.right), pair.read(pair.left);
  }
  pair.send(pair.left);
  ASSERT_GE(pair.to_right.size(), 2u);
  pair.right.handle(pair.to_right[0]); // the spec
  const auto& chunk = pair.to_right[1];
  const auto place = pair.right.in.begin(chunk.header, chunk.payload.size());
  ASSERT_EQ(place.destination.size(), chunk.payload.size());
  pair.right.in.close_channel(1);
  std::memcpy(place.destination.data(), chunk.payload.data(),
              chunk.payload.size());
  EXPECT_TRUE(pair.right.in.finish().empty());
}

TEST(TensorTransfer, RejectsTransfersThatCannotBeSent) {
  sender out{left_ends};
  EXPECT_THROW(out.send(1, 1, {}), std::logic_error);
  EXPECT_THROW(out.send(1, 1, {tensor{}}), std::logic_error);
  EXPECT_THROW(out.send(1, 1, {tensor{{0}, dtype::float32}}), std::logic_error);
}

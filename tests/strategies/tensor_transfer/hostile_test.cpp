#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"
#include "troupe/tests/support/mentions.hpp"

#include <gtest/gtest.h>

using troupe::test::mentions;
using namespace troupe;
using namespace troupe::tensor_transfer;
using namespace troupe::tensor_transfer::testing;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

packet_header of_left(packet_kind kind, std::uint64_t transfer) {
  packet_header x;
  x.generation = left_ends.generation;
  x.incarnation = left_ends.incarnation;
  x.transfer = transfer;
  x.kind = kind;
  return x;
}

packet offer_of(std::uint64_t transfer, std::uint64_t bytes,
                std::uint32_t count = 1) {
  auto header = of_left(packet_kind::offer, transfer);
  header.bytes = bytes;
  header.tensors = count;
  header.channel = 1;
  return {header, {}};
}

packet spec_of(std::uint64_t transfer, const tensor_spec& spec,
               std::uint32_t index = 0) {
  auto header = of_left(packet_kind::spec, transfer);
  header.tensors = index;
  const auto bytes = encode_spec(spec);
  return {header, {bytes.begin(), bytes.end()}};
}

packet chunk_of(std::uint64_t transfer, std::uint64_t position,
                std::size_t bytes) {
  auto header = of_left(packet_kind::chunk, transfer);
  header.position = position;
  return {header, std::vector<std::byte>(bytes, std::byte{1})};
}

/// A receiver with an open channel, which has read the packets.
transfer_end after(const std::vector<packet>& packets,
                   const receiver_limits& limits = {}) {
  transfer_end x{right_ends, limits};
  x.in.open_channel(1);
  for (const auto& one : packets)
    x.handle(one);
  return x;
}

std::string violation_after(const std::vector<packet>& packets,
                            const receiver_limits& limits = {}) {
  return after(packets, limits).error;
}

const tensor_spec thousand{{1000}, dtype::uint8};

} // namespace

TEST(TensorTransfer, ChecksTheSizesOfAnOfferBeforeItReservesMemory) {
  for (const auto& [bytes, count] :
       std::vector<std::pair<std::uint64_t, std::uint32_t>>{
         {0, 0},
         {0, 1},
         {1000, 0},
         {3, 4},
         {max_transfer_bytes + 1, 1},
         {~std::uint64_t{0}, 1},
         {max_transfer_bytes, max_tensors + 1}}) {
    const auto x = after({offer_of(1, bytes, count)});
    EXPECT_TRUE(mentions(x.error, "an offer of")) << bytes << ' ' << count;
    EXPECT_EQ(x.in.reserved_bytes(), 0u);
  }
  EXPECT_EQ(violation_after({offer_of(1, max_transfer_bytes)}), "");
  auto with_payload = offer_of(1, 10);
  with_payload.payload.resize(1);
  EXPECT_TRUE(mentions(violation_after({with_payload}), "payload"));
}

TEST(TensorTransfer, ChecksASpecBeforeItAllocatesTheTensor) {
  const std::vector<tensor_spec> bad{{{1001}, dtype::uint8},
                                     {{999}, dtype::uint8},
                                     {{0}, dtype::uint8},
                                     {{1000}, dtype::float32},
                                     {{std::int64_t{1} << 40}, dtype::uint8}};
  for (const auto& spec : bad) {
    const auto x = after({offer_of(1, 1000), spec_of(1, spec)});
    EXPECT_NE(x.error, "") << to_string(spec);
    EXPECT_EQ(x.in.allocated_bytes(), 0u);
  }
  auto malformed = spec_of(1, thousand);
  malformed.payload[0] = std::byte{9}; // the rank
  EXPECT_NE(violation_after({offer_of(1, 1000), malformed}), "");
  malformed = spec_of(1, thousand);
  malformed.payload.resize(71);
  EXPECT_TRUE(
    mentions(violation_after({offer_of(1, 1000), malformed}), "71 bytes"));
  // A tensor leaves at least one byte for each later tensor.
  EXPECT_NE(violation_after({offer_of(1, 1000, 2), spec_of(1, thousand)}), "");
  EXPECT_EQ(violation_after({offer_of(1, 1000), spec_of(1, thousand)}), "");
}

TEST(TensorTransfer, RejectsSpecsOutOfOrder) {
  const auto offer = offer_of(1, 1000, 2);
  const tensor_spec half{{500}, dtype::uint8};
  EXPECT_TRUE(
    mentions(violation_after({offer, spec_of(1, half, 1)}), "out of order"));
  EXPECT_TRUE(
    mentions(violation_after({offer, spec_of(1, half), spec_of(1, half, 1)}),
             "out of order"));
  EXPECT_EQ(violation_after({offer, spec_of(1, half), spec_of(1, half)}),
            ""); // a repeated packet
}

TEST(TensorTransfer, RejectsChunksAtAWrongPosition) {
  const auto offer = offer_of(1, 1000);
  const auto spec = spec_of(1, thousand);
  EXPECT_TRUE(mentions(violation_after({offer, chunk_of(1, 0, 10)}), "beyond"));
  EXPECT_TRUE(mentions(violation_after({offer, spec, chunk_of(1, 10, 10)}),
                       "0 bytes have arrived"));
  EXPECT_TRUE(
    mentions(violation_after({offer, spec, chunk_of(1, 0, 1001)}), "granted"));
  EXPECT_TRUE(mentions(
    violation_after({offer, spec, chunk_of(1, 0, 10), chunk_of(1, 5, 10)}),
    "position 5"));
  EXPECT_NE(violation_after({offer, spec, chunk_of(1, ~std::uint64_t{0}, 10)}),
            "");
  EXPECT_NE(violation_after({offer, spec, chunk_of(1, 0, 0)}), "");
  // A chunk must not reach into the next tensor.
  EXPECT_TRUE(mentions(
    violation_after({offer_of(1, 1000, 2), spec_of(1, {{500}, dtype::uint8}),
                     chunk_of(1, 0, 600)}),
    "beyond"));
}

TEST(TensorTransfer, IgnoresRepeatedPackets) {
  auto x =
    after({offer_of(1, 1000), offer_of(1, 1000), spec_of(1, thousand),
           chunk_of(1, 0, 600), chunk_of(1, 0, 600), chunk_of(1, 100, 300),
           chunk_of(1, 600, 400), chunk_of(1, 600, 400), spec_of(1, thousand),
           offer_of(1, 1000)});
  EXPECT_EQ(x.error, "");
  EXPECT_EQ(x.received.size(), 1u);
  EXPECT_EQ(x.in.allocated_bytes(), 1000u);
}

TEST(TensorTransfer, RejectsMoreThanWasGranted) {
  const tensor_spec spec{{4 * std::int64_t{mebibyte}}, dtype::uint8};
  const receiver_limits limits{.window_bytes = 100'000};
  EXPECT_TRUE(
    mentions(violation_after({offer_of(1, 4 * mebibyte), spec_of(1, spec),
                              chunk_of(1, 0, 100'001)},
                             limits),
             "only 100000 bytes were granted"));
}

TEST(TensorTransfer, RejectsPacketsOfTransfersThatWereNotAdmitted) {
  transfer_end x{right_ends}; // its channel 1 is not open
  x.handle(offer_of(1, 1000));
  x.handle(spec_of(1, thousand));
  EXPECT_TRUE(mentions(x.error, "nothing was granted"));
  EXPECT_EQ(x.in.allocated_bytes(), 0u);
  EXPECT_TRUE(mentions(violation_after({spec_of(1, thousand)}), "not offered"));
  EXPECT_TRUE(mentions(violation_after({chunk_of(3, 0, 1)}), "not offered"));
  EXPECT_NE(violation_after({{of_left(packet_kind::cancel, 2), {}}}), "");
  EXPECT_NE(violation_after({{of_left(packet_kind::cancel, 0), {}}}), "");
}

TEST(TensorTransfer, ACancelledTransferThatHasArrivedCountsNoLonger) {
  std::vector<packet> packets;
  for (std::uint64_t i = 1; i <= max_transfers + 1; ++i) {
    packets.push_back(offer_of(i, 1000));
    packets.push_back(spec_of(i, thousand));
    packets.push_back(chunk_of(i, 0, 1000));
    packets.push_back({of_left(packet_kind::cancel, i), {}});
  }
  EXPECT_EQ(violation_after(packets), "");
}

TEST(TensorTransfer, RejectsMoreTransfersThanPermitted) {
  std::vector<packet> offers;
  for (std::uint64_t i = 1; i <= max_transfers; ++i)
    offers.push_back(offer_of(i, 1000));
  EXPECT_EQ(violation_after(offers), "");
  offers.push_back(offer_of(max_transfers + 1, 1000));
  EXPECT_TRUE(mentions(violation_after(offers), "open already"));
}

TEST(TensorTransfer, RejectsBooleansThatAreNeitherTrueNorFalse) {
  auto chunk = chunk_of(1, 0, 10);
  chunk.payload[3] = std::byte{2};
  EXPECT_TRUE(
    mentions(violation_after(
               {offer_of(1, 10), spec_of(1, {{10}, dtype::boolean}), chunk}),
             "neither true nor false"));
}

TEST(TensorTransfer, IgnoresPacketsOfAnotherGenerationOrIncarnation) {
  for (const bool generation : {false, true}) {
    transfer_end x{right_ends};
    x.in.open_channel(1);
    auto old = offer_of(1, 1000);
    ++(generation ? old.header.generation : old.header.incarnation);
    x.handle(old);
    EXPECT_EQ(x.in.reserved_bytes(), 0u);
    EXPECT_EQ(x.error, "");
    sender out{right_ends};
    out.send(1, 1, {bytes_tensor(10)});
    out.next();
    out.sent();
    auto grant = of_left(packet_kind::grant, 1);
    grant.position = 10;
    ++(generation ? grant.generation : grant.incarnation);
    EXPECT_TRUE(out.on(grant, 0).empty());
    EXPECT_FALSE(out.next()); // nothing was granted
  }
}

TEST(TensorTransfer, TheSenderChecksThePacketsOfTheReceiver) {
  const auto violation = [](packet_header header, std::size_t payload = 0,
                            bool offered = true) {
    transfer_end x{right_ends};
    x.out.send(1, 1, {bytes_tensor(1000)});
    if (offered) {
      x.out.next();
      x.out.sent();
    }
    x.note(x.out.on(header, payload));
    return x.error;
  };
  auto grant = of_left(packet_kind::grant, 1);
  grant.position = 1000;
  EXPECT_EQ(violation(grant), "");
  EXPECT_TRUE(mentions(violation(grant, 1), "payload"));
  EXPECT_TRUE(mentions(violation(grant, 0, false), "not offered"));
  grant.position = 1001;
  EXPECT_TRUE(mentions(violation(grant), "position 1001 of 1000"));
  grant.transfer = 2;
  EXPECT_TRUE(mentions(violation(grant), "no such transfer"));
  EXPECT_TRUE(mentions(violation(of_left(packet_kind::received, 1)), "before"));
  EXPECT_TRUE(mentions(violation(of_left(packet_kind{99}, 1)), "unknown kind"));
  EXPECT_TRUE(
    mentions(violation(of_left(packet_kind::refuse, 0)), "no such transfer"));
}

TEST(TensorTransfer, ASmallerGrantTakesNothingBack) {
  transfer_end x{right_ends};
  x.out.send(1, 1, {bytes_tensor(1000)});
  x.take();
  auto grant = of_left(packet_kind::grant, 1);
  grant.position = 1000;
  x.handle({grant, {}});
  grant.position = 10;
  x.handle({grant, {}});
  x.take(); // the spec
  const auto chunk = x.take();
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->payload.size(), 1000u);
}

TEST(TensorTransfer, RoundTripsItsHeader) {
  packet_header x{1, 2, 3, 4, 5, 6, 7, 8, packet_kind::grant, {}};
  EXPECT_EQ(read(write(x)), x);
}

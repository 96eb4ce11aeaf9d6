#include "troupe/actors/flight/flight_record.hpp"
#include "troupe/actors/flight/flight_timeline.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/crc32c.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using namespace troupe;

constexpr std::size_t front_bytes = 20; // magic, version, length, checksum

flight_record some_record() {
  flight_record out;
  out.identity = {"job", {"worker 0", "worker 1"}, 1, 77, 1'700'000'000'000};
  out.error = "worker 0 was lost in step 3";
  out.written_ns = 900;
  out.recorded = 12'345;
  out.events.push_back({.kind = flight_event_kind::step_committed,
                        .time_ns = 100,
                        .run = 1,
                        .step = 2});
  out.events.push_back({.kind = flight_event_kind::job_failed,
                        .time_ns = -5,
                        .process = 0,
                        .text = "worker 0 was lost"});
  return out;
}

/// @returns why the bytes are refused. Empty: they are not.
std::string refusal_of(std::span<const std::byte> bytes) {
  try {
    decode_flight_record(bytes);
    return {};
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

/// Replaces the checksum by one that fits the content.
std::vector<std::byte> with_checksum(std::vector<std::byte> bytes) {
  const auto sum = net::crc32c(std::span{bytes}.subspan(front_bytes));
  for (std::size_t i = 0; i < 4; ++i)
    bytes[16 + i] = static_cast<std::byte>(sum >> 8 * i & 0xff);
  return bytes;
}

TEST(FlightRecord, IsReadAsItWasWritten) {
  EXPECT_EQ(decode_flight_record(encode_flight_record(some_record())),
            some_record());
}

TEST(FlightRecord, CountsAnEventWithALongTextOnce) {
  flight_recorder recorder{100};
  recorder.record(
    {.kind = flight_event_kind::run_failed, .text = std::string(4096, 'x')});
  recorder.record({.kind = flight_event_kind::run_begun});
  const auto x = take_record(recorder, {});
  EXPECT_EQ(x.events.size(), 2u);
  EXPECT_EQ(x.recorded, 2u);
  const std::vector records{x};
  EXPECT_EQ(timeline_text(records).find("older events"), std::string::npos);
}

TEST(FlightRecord, TakenFromARecorderHasItsEvents) {
  flight_recorder recorder{2};
  recorder.set_identity({"job", {"worker 0"}, 0, 3, 0});
  for (std::uint64_t step = 0; step < 5; ++step)
    recorder.record({.kind = flight_event_kind::step_committed, .step = step});
  const auto x = take_record(recorder, "it failed");
  EXPECT_EQ(x.error, "it failed");
  EXPECT_EQ(x.recorded, 5u);
  EXPECT_EQ(x.identity.incarnation, 3u);
  ASSERT_EQ(x.events.size(), 2u);
  EXPECT_EQ(x.events[1].step, 4u);
  EXPECT_GE(x.written_ns, x.events[1].time_ns);
}

TEST(FlightRecord, OfAnyOtherLengthIsRefused) {
  auto bytes = encode_flight_record(some_record());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_NE(refusal_of(std::span{bytes}.first(n)), "") << n;
  bytes.push_back({});
  EXPECT_NE(refusal_of(bytes), "");
}

TEST(FlightRecord, WithAnyFlippedBitIsRefused) {
  auto bytes = encode_flight_record(some_record());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_NE(refusal_of(bytes), "") << "byte " << i << ", bit " << bit;
      bytes[i] ^= static_cast<std::byte>(1 << bit);
    }
}

/// The checksum protects from damage only. So each byte is also changed in a
/// record with a matching checksum: it is refused, or has plausible values.
TEST(FlightRecord, WithAnyChangedByteIsSafeToRead) {
  const auto bytes = encode_flight_record(some_record());
  std::size_t refused = 0;
  for (std::size_t i = front_bytes; i < bytes.size(); ++i)
    for (const int value : {0, 1, 127, 255}) {
      auto changed = bytes;
      changed[i] = static_cast<std::byte>(value);
      changed = with_checksum(std::move(changed));
      try {
        const auto x = decode_flight_record(changed);
        EXPECT_LT(x.identity.task, x.identity.names.size());
        EXPECT_LE(x.events.size(), bytes.size());
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 0u);
}

TEST(FlightRecord, OfANewerVersionIsRefusedWithItsNumber) {
  auto bytes = encode_flight_record(some_record());
  bytes[8] = std::byte{9};
  EXPECT_EQ(refusal_of(bytes), "its version is 9, and only version 1 is known");
}

TEST(FlightRecord, KeepsTheNumberOfAnUnknownKind) {
  auto x = some_record();
  x.events[0].kind = static_cast<flight_event_kind>(200);
  const auto read = decode_flight_record(encode_flight_record(x));
  EXPECT_EQ(read, x);
  EXPECT_EQ(to_string(read.events[0].kind), "event 200");
}

TEST(FlightRecord, OfNoProcessIsRefused) {
  auto x = some_record();
  x.identity.task = 2;
  EXPECT_EQ(refusal_of(encode_flight_record(x)), "it names no process");
  x.identity.names.clear();
  x.identity.task = 0;
  EXPECT_EQ(refusal_of(encode_flight_record(x)), "it names no process");
}

} // namespace

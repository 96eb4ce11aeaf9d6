// Fuzzes actors/core/flight_record and flight_timeline: the file of a flight
// recorder from an untrusted source.
#include "troupe/actors/flight/flight_record.hpp"
#include "troupe/actors/flight/flight_timeline.hpp"
#include "troupe/net/codec/crc32c.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <array>
#include <optional>
#include <stdexcept>

namespace troupe::fuzz {

namespace {

constexpr std::size_t front_bytes = 20; // magic, version, length, checksum

/// Gives the content a front with a matching length and checksum. Otherwise
/// hardly an input would be decoded.
bytes with_front(view content) {
  auto out = encode_flight_record({});
  out.resize(front_bytes);
  append(out, content);
  const auto put = [&out](std::size_t at, std::uint32_t x) {
    for (std::size_t i = 0; i < 4; ++i)
      out[at + i] = static_cast<std::byte>(x >> 8 * i & 0xff);
  };
  put(12, static_cast<std::uint32_t>(content.size()));
  put(16, net::crc32c(content));
  return out;
}

flight_record some_record() {
  flight_record out;
  out.identity = {"job", {"worker 0", "worker 1"}, 1, 77, 1'700'000'000'000};
  out.error = "worker 0 was lost in step 3";
  out.recorded = 9;
  for (std::uint8_t kind = 0; kind < 28; ++kind)
    out.events.push_back({.kind = static_cast<flight_event_kind>(kind),
                          .time_ns = kind * 1000,
                          .view = 1,
                          .run = 2,
                          .step = 3,
                          .process = 0,
                          .replica = 1,
                          .bytes = 5,
                          .text = "text"});
  return out;
}

} // namespace

void try_one(view input) {
  const auto file = with_front(input);
  std::optional<flight_record> x;
  const auto peak = memory_of([&] {
    try {
      x = decode_flight_record(file);
    } catch (const std::invalid_argument& e) {
      require(std::string_view{e.what()}.size() < 400, "a refusal is short");
    }
  });
  require(peak <= 64 * file.size() + 65'536, "memory follows the bytes");
  if (!x)
    return;
  require(encode_flight_record(*x) == file,
          "a decoded record has the bytes it was decoded from");
  const std::array one{*x};
  for (const unsigned char c : timeline_text(one))
    require(c >= ' ' || c == '\n', "a timeline has no control characters");
}

std::vector<bytes> seeds() {
  std::vector<bytes> out;
  for (const auto& x : {some_record(), flight_record{}}) {
    const auto file = encode_flight_record(x);
    out.emplace_back(file.begin() + front_bytes, file.end());
  }
  return out;
}

} // namespace troupe::fuzz

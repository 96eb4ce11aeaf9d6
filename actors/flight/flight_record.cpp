#include "troupe/actors/flight/flight_record.hpp"

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/crc32c.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace troupe {

namespace {

// Layout: magic, version, length of the content, CRC-32C of the content,
// content.
constexpr std::array<char, 8> magic{'T', 'R', 'P', 'F', 'L', 'T', 0x1a, '\n'};
constexpr std::uint32_t version = 1;
constexpr std::size_t front_bytes = magic.size() + 3 * 4;

/// An event in a file. Its kind may be one that this version does not know.
struct encoded_event {
  std::uint8_t kind = 0;
  flight_event event;
  auto fields() {
    return std::tie(kind, event.time_ns, event.view, event.generation,
                    event.run, event.step, event.process, event.replica,
                    event.duration_ns, event.bytes, event.text);
  }
};

struct encoded_record {
  flight_identity identity;
  std::string error;
  std::int64_t written_ns = 0;
  std::uint64_t recorded = 0;
  std::vector<encoded_event> events;
  auto fields() {
    return std::tie(identity, error, written_ns, recorded, events);
  }
};

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(why);
}

std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  return net::load_le<std::uint32_t>(bytes.data() + at);
}

void append(std::vector<std::byte>& to, std::uint32_t x) {
  for (int i = 0; i < 4; ++i)
    to.push_back(static_cast<std::byte>(x >> 8 * i & 0xff));
}

} // namespace

flight_record take_record(const flight_recorder& recorder,
                          const std::string& error) {
  return {recorder.identity(), error, recorder.now_ns(), recorder.recorded(),
          recorder.events()};
}

std::vector<std::byte> encode_flight_record(const flight_record& record) {
  encoded_record all{
    record.identity, record.error, record.written_ns, record.recorded, {}};
  all.events.reserve(record.events.size());
  for (const auto& x : record.events)
    all.events.push_back({static_cast<std::uint8_t>(x.kind), x});
  const auto content = net::encode(all);
  std::vector<std::byte> out;
  out.reserve(front_bytes + content.size());
  for (const auto c : magic)
    out.push_back(static_cast<std::byte>(c));
  append(out, version);
  append(out, static_cast<std::uint32_t>(content.size()));
  append(out, net::crc32c(content));
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

flight_record decode_flight_record(std::span<const std::byte> bytes) {
  if (bytes.size() < front_bytes
      || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    refuse("it is no record of a flight recorder");
  if (const auto found = number_at(bytes, magic.size()); found != version)
    refuse("its version is " + std::to_string(found) + ", and only version "
           + std::to_string(version) + " is known");
  const auto content = bytes.subspan(front_bytes);
  const auto length = number_at(bytes, magic.size() + 4);
  if (length > max_flight_record_bytes)
    refuse("it claims " + std::to_string(length)
           + " bytes, which is more than the maximum of "
           + std::to_string(max_flight_record_bytes));
  if (length != content.size())
    refuse("it has " + std::to_string(content.size()) + " bytes of "
           + std::to_string(length));
  if (net::crc32c(content) != number_at(bytes, magic.size() + 8))
    refuse("its checksum is wrong");
  encoded_record all;
  if (const auto fault = net::decode(content, all))
    refuse("it is malformed: " + to_string(*fault));
  if (all.identity.names.empty()
      || all.identity.task >= all.identity.names.size())
    refuse("it names no process");
  flight_record out{std::move(all.identity),
                    std::move(all.error),
                    all.written_ns,
                    all.recorded,
                    {}};
  out.events.reserve(all.events.size());
  for (auto& x : all.events) {
    x.event.kind = static_cast<flight_event_kind>(x.kind);
    out.events.push_back(std::move(x.event));
  }
  return out;
}

} // namespace troupe

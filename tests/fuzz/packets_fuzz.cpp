// Fuzzes net/lanes/stream_lane: packets over a stream that transfers pieces of
// arbitrary size.
#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/lanes/stream_lane.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <fcntl.h>
#include <memory>
#include <optional>

using namespace troupe::net;
namespace layout = troupe::net::packet_layout;

namespace troupe::fuzz {

namespace {

struct packet {
  packet_header head{};
  bytes payload;
  friend bool operator==(const packet&, const packet&) = default;
};

/// A stream that reads from `in` and writes to `out`. Each call uses one byte m
/// of `moods`: it transfers no byte if m < 64, else at most (m - 63) * `piece`
/// bytes. When `moods` is used up, m is 100.
class irregular_stream final : public stream {
public:
  irregular_stream(view in, bytes& out, view moods, std::size_t piece)
    : input_{in}, output_{out}, sizes_{moods}, piece_{piece} {}

  io_result read_some(std::span<std::byte> to) override {
    require(!to.empty(), "a read has a buffer");
    const auto n = std::min({to.size(), input_.size(), next_size()});
    std::copy_n(input_.begin(), n, to.begin());
    input_ = input_.subspan(n);
    if (n > 0)
      return {n, status::ok};
    return {0, input_.empty() ? status::closed : status::wants_read};
  }
  io_result write_some(view first, view second) override {
    const auto n = std::min(first.size() + second.size(), next_size());
    const auto of_first = std::min(n, first.size());
    append(output_, first.first(of_first));
    append(output_, second.first(n - of_first));
    return {n, n > 0 ? status::ok : status::wants_write};
  }
  bool has_buffered() const override { return false; }
  /// Returns a descriptor that `poll` always reports as writable.
  int descriptor() const override {
    static const int it = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    return it;
  }
  std::string problem() const override { return ""; }
  void close() override {}

private:
  /// Returns the number of bytes to transfer now, which may be zero.
  std::size_t next_size() {
    const auto x = sizes_.any() ? sizes_.number<std::uint8_t>() : 100;
    return x < 64 ? 0 : piece_ * (x - 63);
  }

  view input_;
  bytes& output_;
  choices sizes_;
  std::size_t piece_;
};

/// Writes correct checksums to the packets of a stream.
void seal(bytes& x) {
  for (std::size_t offset = 0; x.size() - offset >= layout::size;) {
    auto* from = x.data() + offset;
    const auto head_sum = crc32c({from, layout::header_checksum});
    store_le(from + layout::header_checksum, head_sum);
    const std::size_t length = load_le<std::uint32_t>(from + layout::length);
    offset += layout::size;
    const auto payload =
      std::span{x}.subspan(offset, std::min(length, x.size() - offset));
    store_le(from + layout::checksum, crc32c(payload, head_sum));
    offset += payload.size();
  }
}

/// The packets of a stream, and whether it violates the format of docs/wire.md.
struct outcome {
  std::vector<packet> packets;
  bool broken = false;
  friend bool operator==(const outcome&, const outcome&) = default;
};

outcome expected(view from) {
  outcome x;
  while (from.size() >= layout::size) {
    const auto length = load_le<std::uint32_t>(from.data() + layout::length);
    const auto head_sum = crc32c(from.first(layout::header_checksum));
    if (load_le<std::uint32_t>(from.data() + layout::header_checksum)
          != head_sum
        || load_le<std::uint32_t>(from.data() + layout::flags) != 0
        || length > max_packet_bytes)
      return x.broken = true, x;
    if (from.size() - layout::size < length)
      return x;
    packet one;
    std::copy_n(from.begin() + layout::header, packet_header_size,
                one.head.begin());
    const auto payload = from.subspan(layout::size, length);
    if (load_le<std::uint32_t>(from.data() + layout::checksum)
        != crc32c(payload, head_sum))
      return x.broken = true, x;
    append(one.payload, payload);
    x.packets.push_back(std::move(one));
    from = from.subspan(layout::size + length);
  }
  return x;
}

/// Receives all packets until the lane has ended.
outcome taken_from(lane& x) {
  outcome got;
  static bytes into(max_packet_bytes);
  for (int idle = 0; idle < 8;) {
    const auto* head = x.front();
    if (!head) {
      idle += x.closed().has_value();
      continue;
    }
    require(x.front_bytes() <= max_packet_bytes, "packets are bounded");
    if (!x.fetch(std::span{into}.first(x.front_bytes()))) {
      idle += x.closed().has_value();
      continue;
    }
    packet one{*head, {}};
    append(one.payload, view{into}.first(x.front_bytes()));
    got.packets.push_back(std::move(one));
    x.pop();
  }
  got.broken = x.closed()->cause != close_reason::closed;
  return got;
}

std::unique_ptr<lane> lane_over(view in, bytes& out, view moods,
                                std::size_t piece) {
  return std::make_unique<stream_lane>(
    std::make_unique<irregular_stream>(in, out, moods, piece));
}

void receive(view in, view moods, std::size_t piece) {
  const auto wanted = expected(in);
  bytes none;
  std::optional<outcome> got;
  const auto memory = memory_of([&] {
    const auto lane = lane_over(in, none, moods, piece);
    got = taken_from(*lane);
  });
  require(*got == wanted, "a stream in any pieces has the same packets");
  require(memory <= 3 * max_packet_bytes + 8 * in.size(),
          "memory follows the bytes that came");
}

/// Checks that posted packets are written to the stream unchanged.
void send(choices& source, view moods, std::size_t piece) {
  outcome wanted;
  bytes out;
  {
    const auto lane = lane_over({}, out, moods, piece);
    while (source.any() && wanted.packets.size() < 16) {
      packet one;
      const bool placed = source.flip();
      one.payload.resize(source.below(16) * source.below(255));
      for (auto& b : one.payload)
        b = static_cast<std::byte>(one.payload.size() + wanted.packets.size());
      const auto head = source.take(8);
      std::copy(head.begin(), head.end(), one.head.begin());
      if (!placed) {
        while (!lane->post(one.head, one.payload)) {
        }
      } else {
        auto room = lane->reserve();
        while (room.empty())
          room = lane->reserve();
        std::ranges::copy(one.payload, room.begin());
        lane->post(one.head, one.payload.size());
      }
      wanted.packets.push_back(std::move(one));
    }
    while (!lane->flush()) {
    }
  }
  require(expected(out) == wanted, "a posted packet arrives unchanged");
}

} // namespace

void try_one(view input) {
  choices source{input};
  const bool sends = source.flip(), sealed = source.flip();
  const std::size_t piece = 1 + source.number<std::uint16_t>() % 5000;
  const auto moods = source.take(source.below(64));
  if (sends)
    return send(source, moods, piece);
  const auto rest = source.rest();
  bytes stream{rest.begin(), rest.end()};
  if (sealed)
    seal(stream);
  receive(stream, moods, piece);
}

std::vector<bytes> seeds() {
  std::vector<bytes> inputs;
  const auto moods = joined({6, 200, 0, 65, 255, 10, 90});
  for (const int length : {0, 1, 200}) {
    auto packet = joined({length}, bytes(layout::size - 1), bytes(length));
    packet[layout::header] = std::byte{77};
    inputs.push_back(joined({0, 1, 3, 0}, moods, packet, packet, packet));
  }
  inputs.push_back(joined({1, 0, 100, 0}, moods,
                          joined({1, 10, 20, 1, 2, 3, 4, 5, 6, 7, 8}),
                          joined({0, 15, 250, 1, 2, 3, 4, 5, 6, 7, 8})));
  return inputs;
}

} // namespace troupe::fuzz

// net/stream_lane: packets over a stream that transfers arbitrary pieces.
#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/lanes/stream_lane.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <fcntl.h>
#include <memory>
#include <optional>

using namespace troupe::net;
namespace layout = troupe::net::parcel_layout;

namespace troupe::fuzz {

namespace {

struct letter {
  parcel_head head{};
  bytes payload;
  friend bool operator==(const letter&, const letter&) = default;
};

/// Reads from `in` and writes to `out`, in pieces of arbitrary size.
class moody_stream final : public stream {
public:
  moody_stream(view in, bytes& out, view moods, std::size_t piece)
    : in_{in}, out_{out}, moods_{moods}, piece_{piece} {}

  moved read_some(std::span<std::byte> to) override {
    require(!to.empty(), "a read has a buffer");
    const auto n = std::min({to.size(), in_.size(), some()});
    std::copy_n(in_.begin(), n, to.begin());
    in_ = in_.subspan(n);
    if (n > 0)
      return {n, status::ok};
    return {0, in_.empty() ? status::closed : status::wants_read};
  }
  moved write_some(view first, view second) override {
    const auto n = std::min(first.size() + second.size(), some());
    const auto of_first = std::min(n, first.size());
    append(out_, first.first(of_first));
    append(out_, second.first(n - of_first));
    return {n, n > 0 ? status::ok : status::wants_write};
  }
  bool has_buffered() const override { return false; }
  /// A descriptor that `poll` always reports as writable.
  int descriptor() const override {
    static const int it = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    return it;
  }
  std::string problem() const override { return ""; }
  void close() override {}

private:
  /// Number of bytes to transfer now; sometimes zero.
  std::size_t some() {
    const auto x = moods_.any() ? moods_.number<std::uint8_t>() : 100;
    return x < 64 ? 0 : piece_ * (x - 63);
  }

  view in_;
  bytes& out_;
  choices moods_;
  std::size_t piece_;
};

/// Writes correct checksums to the packets.
void seal(bytes& x) {
  for (std::size_t at = 0; x.size() - at >= layout::size;) {
    auto* from = x.data() + at;
    const auto head_sum = crc32c({from, layout::head_sum});
    store_le(from + layout::head_sum, head_sum);
    const std::size_t length = load_le<std::uint32_t>(from + layout::length);
    at += layout::size;
    const auto payload =
      std::span{x}.subspan(at, std::min(length, x.size() - at));
    store_le(from + layout::sum, crc32c(payload, head_sum));
    at += payload.size();
  }
}

/// Packets of a stream by docs/wire.md, and whether it is broken.
struct outcome {
  std::vector<letter> all;
  bool broken = false;
  friend bool operator==(const outcome&, const outcome&) = default;
};

outcome expected(view from) {
  outcome x;
  while (from.size() >= layout::size) {
    const auto length = load_le<std::uint32_t>(from.data() + layout::length);
    const auto head_sum = crc32c(from.first(layout::head_sum));
    if (load_le<std::uint32_t>(from.data() + layout::head_sum) != head_sum
        || load_le<std::uint32_t>(from.data() + layout::flags) != 0
        || length > most_parcel_bytes)
      return x.broken = true, x;
    if (from.size() - layout::size < length)
      return x;
    letter one;
    std::copy_n(from.begin() + layout::head, parcel_head_size,
                one.head.begin());
    const auto payload = from.subspan(layout::size, length);
    if (load_le<std::uint32_t>(from.data() + layout::sum)
        != crc32c(payload, head_sum))
      return x.broken = true, x;
    append(one.payload, payload);
    x.all.push_back(std::move(one));
    from = from.subspan(layout::size + length);
  }
  return x;
}

/// All packets until the end of the lane.
outcome taken_from(lane& x) {
  outcome got;
  static bytes into(most_parcel_bytes);
  for (int idle = 0; idle < 8;) {
    const auto* head = x.front();
    if (!head) {
      idle += x.ended().has_value();
      continue;
    }
    require(x.front_bytes() <= most_parcel_bytes, "packets are bounded");
    if (!x.fetch(std::span{into}.first(x.front_bytes()))) {
      idle += x.ended().has_value();
      continue;
    }
    letter one{*head, {}};
    append(one.payload, view{into}.first(x.front_bytes()));
    got.all.push_back(std::move(one));
    x.pop();
  }
  got.broken = x.ended()->how == ending::broken;
  return got;
}

std::unique_ptr<lane> lane_over(view in, bytes& out, view moods,
                                std::size_t piece) {
  return std::make_unique<stream_lane>(
    std::make_unique<moody_stream>(in, out, moods, piece));
}

void receive(view in, view moods, std::size_t piece) {
  const auto wanted = expected(in);
  bytes none;
  std::optional<outcome> got;
  const auto memory = memory_of([&] {
    const auto lane = lane_over(in, none, moods, piece);
    got = taken_from(*lane);
  });
  require(*got == wanted, "a stream in any pieces has the same parcels");
  require(memory <= 3 * most_parcel_bytes + 8 * in.size(),
          "memory follows the bytes that came");
}

/// Posted packets arrive unchanged through every stream.
void send(choices& from, view moods, std::size_t piece) {
  outcome wanted;
  bytes out;
  {
    const auto lane = lane_over({}, out, moods, piece);
    while (from.any() && wanted.all.size() < 16) {
      letter one;
      const bool placed = from.flip();
      one.payload.resize(from.below(16) * from.below(255));
      for (auto& b : one.payload)
        b = static_cast<std::byte>(one.payload.size() + wanted.all.size());
      const auto head = from.take(8);
      std::copy(head.begin(), head.end(), one.head.begin());
      if (!placed) {
        while (!lane->post(one.head, one.payload)) {
        }
      } else {
        auto room = lane->room();
        while (room.empty())
          room = lane->room();
        std::ranges::copy(one.payload, room.begin());
        lane->post(one.head, one.payload.size());
      }
      wanted.all.push_back(std::move(one));
    }
    while (!lane->flush()) {
    }
  }
  require(expected(out) == wanted, "a posted packet arrives unchanged");
}

} // namespace

void try_one(view input) {
  choices from{input};
  const bool sends = from.flip(), sealed = from.flip();
  const std::size_t piece = 1 + from.number<std::uint16_t>() % 5000;
  const auto moods = from.take(from.below(64));
  if (sends)
    return send(from, moods, piece);
  const auto rest = from.rest();
  bytes stream{rest.begin(), rest.end()};
  if (sealed)
    seal(stream);
  receive(stream, moods, piece);
}

std::vector<bytes> seeds() {
  std::vector<bytes> all;
  const auto moods = joined({6, 200, 0, 65, 255, 10, 90});
  for (const int length : {0, 1, 200}) {
    auto parcel = joined({length}, bytes(layout::size - 1), bytes(length));
    parcel[layout::head] = std::byte{77};
    all.push_back(joined({0, 1, 3, 0}, moods, parcel, parcel, parcel));
  }
  all.push_back(joined({1, 0, 100, 0}, moods,
                       joined({1, 10, 20, 1, 2, 3, 4, 5, 6, 7, 8}),
                       joined({0, 15, 250, 1, 2, 3, 4, 5, 6, 7, 8})));
  return all;
}

} // namespace troupe::fuzz

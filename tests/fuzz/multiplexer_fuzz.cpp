// Fuzzes net/session/multiplexer: one multiplexer with a stream of arbitrary
// frames, and a pair of multiplexers with valid calls in any order.
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/codec/frame_layout.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/net/session/multiplexers.hpp"

#include <map>
#include <optional>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace troupe::fuzz {

namespace {

constexpr std::uint32_t max_channels = 4;
const frame_limits limits{.control = 1000, .bulk = 100'000};
/// Maximum size of a stream in bytes. It is enough to exceed the credits of
/// every channel.
constexpr std::size_t max_stream_bytes = 64'000;

frame plain_frame(std::size_t size, std::size_t number, priority how) {
  frame x{.priority = how, .tag = number, .payload = {}};
  x.payload.assign(size, static_cast<std::byte>(number));
  return x;
}

/// Makes a stream of control frames and of frames on a few channels, as an
/// input chooses.
bytes stream_of(choices& source) {
  bytes stream;
  while (source.any() && stream.size() < max_stream_bytes) {
    const auto kind = source.below(12);
    frame x{.priority = priority(source.below(2)),
            .tag = source.below(7),
            .payload = {},
            .channel = std::uint32_t(source.below(max_channels + 2))};
    if (kind < 6) { // a control frame, mostly valid
      const std::uint32_t number = x.channel;
      x.channel = 0;
      x.tag = kind;
      if (kind == std::size_t(control_frame::credit))
        x.payload = encode(number, x.priority, std::uint32_t(source.below(70)));
      else if (kind == std::size_t(control_frame::close))
        x.payload = encode(number, std::string(source.below(3), 'w'));
      else if (kind == std::size_t(control_frame::close_ack))
        x.payload = encode(number);
      else if (kind == std::size_t(control_frame::goaway))
        x.payload = encode(std::string{"why"});
    } else if (kind < 8) {
      x.payload.resize(source.below(50));
    } else if (kind < 10) {
      const auto some = source.take(source.below(30));
      x.payload = {some.begin(), some.end()};
    } else if (kind == 10) {
      x.channel = source.number<std::uint32_t>();
    } else {
      append(stream, source.take(source.below(60)));
      continue;
    }
    const auto one = to_bytes(x);
    for (auto times = 1 + (kind > 8 ? source.below(100) : 0); times > 0;
         --times)
      append(stream, one);
  }
  return stream;
}

/// Observable state of a multiplexer.
struct observed_state {
  std::vector<multiplexer::event> events;
  std::optional<multiplexer::closed_state> over;
  bytes sent;

  friend bool operator==(const observed_state& a, const observed_state& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.channel == y.channel && x.received == y.received
             && x.cause == y.cause && x.reason == y.reason;
    };
    return std::ranges::equal(a.events, b.events, same) && a.sent == b.sent
           && a.over.has_value() == b.over.has_value()
           && (!a.over
               || (a.over->cause == b.over->cause
                   && a.over->reason == b.over->reason));
  }
};

observed_state run_multiplexer(view stream, std::size_t piece) {
  observed_state observed;
  multiplexer muxer{limits};
  for (std::uint32_t c = 1; c <= max_channels / 2; ++c) {
    muxer.open(c);
    for (std::uint32_t i = 0; i < c; ++i)
      muxer.post(c, plain_frame(10 * i, i, priority(i % 2)));
  }
  muxer.close(2, "enough");
  while (!stream.empty() && !observed.over) {
    const auto some = stream.first(std::min(piece, stream.size()));
    observed.over = muxer.receive(some, observed.events);
    stream = stream.subspan(some.size());
  }
  for (std::uint32_t c = max_channels / 2 + 1; c <= max_channels; ++c)
    for (auto& e : muxer.open(c)) // events that were buffered until this call
      observed.events.push_back(std::move(e));
  while (!muxer.output().empty()) {
    const auto front = muxer.output().front();
    append(observed.sent, front);
    muxer.output().written(front.size());
  }
  return observed;
}

void check_member(view stream, std::size_t piece) {
  piece = std::max(piece, stream.size() / 512);
  observed_state whole;
  const auto memory =
    memory_of([&] { whole = run_multiplexer(stream, ~std::size_t{0}); });
  require(memory <= 16 * stream.size() + 65536,
          "memory follows the bytes that came");
  require(whole.sent.size() <= 8 * stream.size() + 1024,
          "replies are proportional to the input");
  require(run_multiplexer(stream, piece) == whole,
          "bytes in any pieces do the same");
  std::map<std::uint32_t, std::size_t> heard[2];
  for (const auto& e : whole.events)
    if (e.received)
      require(++heard[std::size_t(e.received->priority)][e.channel]
                <= credits_of(e.received->priority),
              "a peer sends only as many frames as it has credits");
}

/// Makes valid calls of two connected multiplexers, in any order.
class multiplexer_fuzzer {
public:
  /// Makes one call, as an input chooses.
  void act(choices& source) {
    const auto side = source.below(2);
    auto& acting = side == 0 ? pair_.left : pair_.right;
    const auto number = std::uint32_t(1 + source.below(max_channels));
    auto& entry = channels_[side][number];
    switch (source.below(6)) {
      case 0:
        if (!std::exchange(entry.open, true))
          take(side, acting.open(number));
        break;
      case 1:
      case 2:
        for (auto n = source.below(80); entry.open && n > 0; --n)
          if (auto x = plain_frame(n % 7, posted_++, priority(n % 2));
              acting.post(number, frame{x}))
            entry.posted[n % 2].push_back(x.payload);
        break;
      case 3:
        for (auto& n : entry.taken)
          for (; n > 0; --n)
            acting.consumed(number, priority(&n - entry.taken));
        break;
      case 4:
        if (entry.open)
          acting.close(number, "done");
        break;
      default:
        pass(side, 1 + source.number<std::uint16_t>() % 4096);
    }
  }

  void finish() {
    for (int turn = 0; turn < 20; ++turn)
      for (const std::size_t side : {0, 1}) {
        auto& acting = side == 0 ? pair_.left : pair_.right;
        for (std::uint32_t number = 1; number <= max_channels; ++number) {
          if (!std::exchange(channels_[side][number].open, true))
            take(side, acting.open(number));
          acting.close(number, "done");
        }
        pass(side, 4096);
      }
    for (const std::size_t side : {0, 1})
      for (auto& [number, x] : channels_[side]) {
        auto& peer = channels_[1 - side][number];
        for (const int i : {0, 1})
          require(peer.received[i] == x.posted[i],
                  "posted frames arrive in order");
      }
  }

private:
  struct channel_state {
    bool open = false, ended = false;
    std::vector<std::vector<std::byte>> posted[2], received[2];
    std::size_t taken[2] = {0, 0};
  };

  void pass(std::size_t side, std::size_t piece) {
    auto& from = side == 0 ? pair_.left : pair_.right;
    auto& to = side == 0 ? pair_.right : pair_.left;
    events heard;
    const auto over = multiplexer_pair::transfer(from, to, heard, piece);
    require(!over, "valid calls do not end the connection");
    take(1 - side, std::move(heard));
  }
  void take(std::size_t side, events&& all) {
    for (auto& e : all) {
      auto& x = channels_[side][e.channel];
      require(!x.ended, "the end is the last event of a channel");
      if (!e.received) {
        x.ended = true;
        continue;
      }
      const auto i = std::size_t(e.received->priority);
      x.received[i].push_back(std::move(e.received->payload));
      ++x.taken[i];
    }
  }

  multiplexer_pair pair_;
  std::size_t posted_ = 0;
  std::map<std::uint32_t, channel_state> channels_[2];
};

} // namespace

void try_one(view input) {
  choices source{input};
  const auto what = source.below(3);
  const std::size_t piece = 1 + source.number<std::uint8_t>();
  if (what == 0)
    return check_member(source.rest(), piece);
  if (what == 1)
    return check_member(stream_of(source), piece);
  multiplexer_fuzzer x;
  for (int actions = 0; source.any() && actions < 200; ++actions)
    x.act(source);
  x.finish();
}

std::vector<bytes> seeds() {
  return {
    joined({0, 9}, to_bytes(sample_frame(5)), to_bytes(sample_frame(0))),
    joined({1, 9, 1, 0, 0, 0, 2, 0, 0, 1, 1, 3, 0, 0, 3, 1, 4, 1, 0, 2}),
    joined({1, 200, 7, 0, 2, 1, 9, 7, 1, 2, 1, 9, 3, 1, 0, 3, 0, 5, 0, 0, 1}),
    joined({1, 3, 9, 0, 1, 1, 3, 7, 7, 7, 99, 10, 0, 0, 1, 1, 2, 3, 4}),
    joined({2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 79, 1, 0, 5, 9, 9, 1,
            0, 3, 1, 0, 5, 9, 9, 0, 0, 4, 1, 0,  4, 0, 0, 5, 1, 1}),
  };
}

} // namespace troupe::fuzz

// net/multiplexer: the channels of a connection to an arbitrary peer, and a
// pair of multiplexers whose owners act in any order.
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

constexpr std::uint32_t most_channels = 4;
const frame_limits limits{.control = 1000, .bulk = 100'000};
/// More frames than credits, on each channel.
constexpr std::size_t long_enough = 64'000;

frame plain_letter(std::size_t size, std::size_t number, priority how) {
  frame x{.priority = how, .tag = number, .payload = {}};
  x.payload.assign(size, static_cast<std::byte>(number));
  return x;
}

/// Decodes an input to a stream of service messages and frames on a few
/// channels.
bytes stream_of(choices& from) {
  bytes stream;
  while (from.any() && stream.size() < long_enough) {
    const auto what = from.below(12);
    frame x{.priority = priority(from.below(2)),
            .tag = from.below(7),
            .payload = {},
            .channel = std::uint32_t(from.below(most_channels + 2))};
    if (what < 6) { // A valid service message.
      const std::uint32_t number = x.channel;
      x.channel = 0;
      x.tag = what;
      if (what == std::size_t(service::credit))
        x.payload = encode(number, x.priority, std::uint32_t(from.below(70)));
      else if (what == std::size_t(service::close))
        x.payload = encode(number, std::string(from.below(3), 'w'));
      else if (what == std::size_t(service::closed))
        x.payload = encode(number);
      else if (what == std::size_t(service::goodbye))
        x.payload = encode(std::string{"why"});
    } else if (what < 8) {
      x.payload.resize(from.below(50));
    } else if (what < 10) {
      const auto some = from.take(from.below(30));
      x.payload = {some.begin(), some.end()};
    } else if (what == 10) {
      x.channel = from.number<std::uint32_t>();
    } else {
      append(stream, from.take(from.below(60)));
      continue;
    }
    const auto one = to_bytes(x);
    for (auto times = 1 + (what > 8 ? from.below(100) : 0); times > 0; --times)
      append(stream, one);
  }
  return stream;
}

/// Observable state of a multiplexer.
struct looks {
  std::vector<switchboard::event> events;
  std::optional<switchboard::end> over;
  bytes said;

  friend bool operator==(const looks& a, const looks& b) {
    const auto same = [](const auto& x, const auto& y) {
      return x.channel == y.channel && x.heard == y.heard && x.how == y.how
             && x.ended == y.ended;
    };
    return std::ranges::equal(a.events, b.events, same) && a.said == b.said
           && a.over.has_value() == b.over.has_value()
           && (!a.over
               || (a.over->how == b.over->how && a.over->why == b.over->why));
  }
};

looks hear(view stream, std::size_t piece) {
  looks x;
  switchboard board{limits};
  for (std::uint32_t c = 1; c <= most_channels / 2; ++c) {
    board.open(c);
    for (std::uint32_t i = 0; i < c; ++i)
      board.post(c, plain_letter(10 * i, i, priority(i % 2)));
  }
  board.close(2, "enough");
  while (!stream.empty() && !x.over) {
    const auto some = stream.first(std::min(piece, stream.size()));
    x.over = board.take(some, x.events);
    stream = stream.subspan(some.size());
  }
  for (std::uint32_t c = most_channels / 2 + 1; c <= most_channels; ++c)
    for (auto& e :
         board.open(c)) // Events that arrived before the channel was opened.
      x.events.push_back(std::move(e));
  while (!board.out().empty()) {
    const auto front = board.out().front();
    append(x.said, front);
    board.out().written(front.size());
  }
  return x;
}

void check_member(view stream, std::size_t piece) {
  piece = std::max(piece, stream.size() / 512);
  looks whole;
  const auto memory = memory_of([&] { whole = hear(stream, ~std::size_t{0}); });
  require(memory <= 16 * stream.size() + 65536,
          "memory follows the bytes that came");
  require(whole.said.size() <= 8 * stream.size() + 1024,
          "replies are proportional to the input");
  require(hear(stream, piece) == whole, "bytes in any pieces do the same");
  std::map<std::uint32_t, std::size_t> heard[2];
  for (const auto& e : whole.events)
    if (e.heard)
      require(++heard[std::size_t(e.heard->priority)][e.channel]
                <= credits_of(e.heard->priority),
              "a peer sends only as many frames as it has credits");
}

/// Two multiplexers whose owners make valid calls in any order.
class pair_of_boards {
public:
  /// @returns false if the connection has ended.
  void act(choices& from) {
    const auto side = from.below(2);
    auto& me = side == 0 ? on_.left : on_.right;
    const auto number = std::uint32_t(1 + from.below(most_channels));
    auto& mine = at_[side][number];
    switch (from.below(6)) {
      case 0:
        if (!std::exchange(mine.open, true))
          take(side, me.open(number));
        break;
      case 1:
      case 2:
        for (auto n = from.below(80); mine.open && n > 0; --n)
          if (auto x = plain_letter(n % 7, posted_++, priority(n % 2));
              me.post(number, frame{x}))
            mine.posted[n % 2].push_back(x.payload);
        break;
      case 3:
        for (auto& n : mine.taken)
          for (; n > 0; --n)
            me.consumed(number, priority(&n - mine.taken));
        break;
      case 4:
        if (mine.open)
          me.close(number, "done");
        break;
      default:
        pass(side, 1 + from.number<std::uint16_t>() % 4096);
    }
  }

  void finish() {
    for (int turn = 0; turn < 20; ++turn)
      for (const std::size_t side : {0, 1}) {
        auto& me = side == 0 ? on_.left : on_.right;
        for (std::uint32_t number = 1; number <= most_channels; ++number) {
          if (!std::exchange(at_[side][number].open, true))
            take(side, me.open(number));
          me.close(number, "done");
        }
        pass(side, 4096);
      }
    for (const std::size_t side : {0, 1})
      for (auto& [number, x] : at_[side]) {
        auto& peer = at_[1 - side][number];
        for (const int i : {0, 1})
          require(peer.heard[i] == x.posted[i],
                  "posted frames arrive in order");
      }
  }

private:
  struct local {
    bool open = false, ended = false;
    std::vector<std::vector<std::byte>> posted[2], heard[2];
    std::size_t taken[2] = {0, 0};
  };

  void pass(std::size_t side, std::size_t piece) {
    auto& from = side == 0 ? on_.left : on_.right;
    auto& to = side == 0 ? on_.right : on_.left;
    events heard;
    const auto over = both::carry(from, to, heard, piece);
    require(!over, "valid calls do not end the connection");
    take(1 - side, std::move(heard));
  }
  void take(std::size_t side, events&& all) {
    for (auto& e : all) {
      auto& x = at_[side][e.channel];
      require(!x.ended, "the end is the last event of a channel");
      if (!e.heard) {
        x.ended = true;
        continue;
      }
      const auto i = std::size_t(e.heard->priority);
      x.heard[i].push_back(std::move(e.heard->payload));
      ++x.taken[i];
    }
  }

  both on_;
  std::size_t posted_ = 0;
  std::map<std::uint32_t, local> at_[2];
};

} // namespace

void try_one(view input) {
  choices from{input};
  const auto what = from.below(3);
  const std::size_t piece = 1 + from.number<std::uint8_t>();
  if (what == 0)
    return check_member(from.rest(), piece);
  if (what == 1)
    return check_member(stream_of(from), piece);
  pair_of_boards x;
  for (int actions = 0; from.any() && actions < 200; ++actions)
    x.act(from);
  x.finish();
}

std::vector<bytes> seeds() {
  return {
    joined({0, 9}, to_bytes(letter(5)), to_bytes(letter(0))),
    joined({1, 9, 1, 0, 0, 0, 2, 0, 0, 1, 1, 3, 0, 0, 3, 1, 4, 1, 0, 2}),
    joined({1, 200, 7, 0, 2, 1, 9, 7, 1, 2, 1, 9, 3, 1, 0, 3, 0, 5, 0, 0, 1}),
    joined({1, 3, 9, 0, 1, 1, 3, 7, 7, 7, 99, 10, 0, 0, 1, 1, 2, 3, 4}),
    joined({2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 79, 1, 0, 5, 9, 9, 1,
            0, 3, 1, 0, 5, 9, 9, 0, 0, 4, 1, 0,  4, 0, 0, 5, 1, 1}),
  };
}

} // namespace troupe::fuzz

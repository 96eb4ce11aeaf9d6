// net/handshake and net/proof: two processes connect, and one of them does not
// follow the protocol.
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <optional>

using namespace troupe::net;
using side = handshake::side;
using state = handshake::state;

namespace troupe::fuzz {

namespace {

/// Maximum memory of a handshake: one received message, one sent message, and
/// their contents.
constexpr std::size_t most_memory = 12 * most_hello_bytes;

nonce nonce_of(int seed) {
  nonce x;
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::byte>(seed + 7 * i);
  return x;
}

const hello& somebody() {
  static const hello x{.job = "job",
                       .name = "worker 1",
                       .incarnation = 7,
                       .purpose = "control",
                       .note = bytes(3)};
  return x;
}

/// @param seed Seed of the nonce; constant in all recorded conversations.
handshake one(side at, const std::string& secret, int seed = 1) {
  return at == side::dialer ? handshake{at, secret, nonce_of(seed), somebody()}
                            : handshake{at, secret, nonce_of(seed + 100)};
}

/// Observable state of a handshake.
struct looks {
  state now;
  std::string why;
  bytes said;
  std::size_t taken; ///< Bytes; zero after a failure.
  friend bool operator==(const looks&, const looks&) = default;
};

/// Passes bytes to the handshake, in pieces, until it ends. Authorizes the peer
/// when asked.
looks tell(handshake& x, view left, std::size_t piece) {
  const auto all = left.size();
  bytes said;
  const auto hear = [&] {
    append(said, x.unsent());
    x.sent(x.unsent().size());
  };
  hear();
  while (!left.empty() && x.wants() > 0) {
    const auto n = std::min({x.wants(), left.size(), piece});
    x.take(left.first(n));
    left = left.subspan(n);
    if (x.now() == state::asked)
      x.answer({.why = {}, .note = bytes(2), .who = somebody()});
    hear();
  }
  const auto failed = x.now() == state::failed;
  return {x.now(), x.why(), said, failed ? 0 : all - left.size()};
}

/// Passes arbitrary bytes. An outsider does not know the secret, but a recorded
/// conversation. The bytes of an insider may be authenticated.
void meet_one(side at, const std::string& secret, bool insider, view input,
              std::size_t piece) {
  const int seed = insider ? 1 : 2;
  std::optional<looks> whole;
  const auto memory = memory_of([&] {
    auto x = one(at, secret, seed);
    whole = tell(x, input, ~std::size_t{0});
  });
  require(memory <= most_memory, "memory is bounded");
  if (!insider && !secret.empty()) {
    require(whole->now != state::taken && whole->now != state::asked,
            "no connection without the secret");
    require(at == side::dialer || whole->said.size() <= 40,
            "an outsider learns nothing");
  }
  auto again = one(at, secret, seed);
  require(tell(again, input, piece) == *whole,
          "bytes in any pieces have the same effect");
}

/// Two sides that know the secret, and a man in the middle that changes their
/// messages.
void meet_through(const std::string& secret, choices& from) {
  auto dials = one(side::dialer, secret), accepts = one(side::acceptor, secret);
  bool changed = false;
  const auto pass = [&](handshake& speaker, handshake& hearer) {
    bytes said{speaker.unsent().begin(), speaker.unsent().end()};
    speaker.sent(said.size());
    const bytes before = said;
    for (auto times = from.below(3); times > 0 && !said.empty(); --times)
      said[from.number<std::uint16_t>() % said.size()] ^=
        from.number<std::uint8_t>() % 2 ? std::byte{1} : std::byte{0x80};
    if (from.below(8) == 7)
      said.resize(from.number<std::uint16_t>() % (said.size() + 1));
    if (from.below(8) == 7)
      append(said, from.take(from.below(64)));
    changed |= said != before;
    view left{said};
    while (!left.empty() && hearer.wants() > 0) {
      const auto n =
        std::min({hearer.wants(), left.size(), 1 + from.below(255)});
      hearer.take(left.first(n));
      left = left.subspan(n);
    }
  };
  const verdict yes{.why = {}, .note = bytes(5), .who = somebody()};
  for (int turn = 0; turn < 4; ++turn) {
    pass(dials, accepts);
    if (accepts.now() == state::asked)
      accepts.answer(yes);
    pass(accepts, dials);
  }
  const bool both =
    dials.now() == state::taken && accepts.now() == state::taken;
  require(changed || both, "two sides that know the secret connect");
  if (secret.empty())
    return;
  if (accepts.now() == state::taken)
    require(accepts.peer() == somebody(), "a hello arrives unchanged");
  if (dials.now() == state::taken)
    require(dials.note() == yes.note && dials.peer() == yes.who,
            "a hello response arrives unchanged");
}

} // namespace

void try_one(view input) {
  choices from{input};
  const auto what = from.number<std::uint8_t>();
  const std::string secret = what & 1 ? "sesame" : "";
  if (what & 8)
    return meet_through(secret, from);
  const std::size_t piece = 1 + from.number<std::uint8_t>();
  meet_one(what & 2 ? side::acceptor : side::dialer, secret, what & 4,
           from.rest(), piece);
}

namespace {

/// Messages of both sides of a successful handshake.
std::pair<bytes, bytes> said_by_both(const std::string& secret) {
  auto dials = one(side::dialer, secret), accepts = one(side::acceptor, secret);
  bytes there, back;
  const auto pass = [](handshake& speaker, handshake& hearer, bytes& log) {
    const bytes said{speaker.unsent().begin(), speaker.unsent().end()};
    speaker.sent(said.size());
    append(log, said);
    for (view left{said}; !left.empty();) {
      const auto n = std::min(left.size(), hearer.wants());
      hearer.take(left.first(n));
      left = left.subspan(n);
    }
  };
  for (int turn = 0; turn < 3; ++turn) {
    pass(dials, accepts, there);
    if (accepts.now() == state::asked)
      accepts.answer({.why = {}, .note = bytes(2), .who = somebody()});
    pass(accepts, dials, back);
  }
  require(dials.now() == state::taken, "the seeds are valid");
  return {there, back};
}

} // namespace

std::vector<bytes> seeds() {
  std::vector<bytes> all;
  for (const std::string secret : {"", "sesame"}) {
    const auto [there, back] = said_by_both(secret);
    const int known = !secret.empty();
    for (const int who : {0, 4}) {
      all.push_back(joined({who + known, 10}, back));
      all.push_back(joined({who + 2 + known, 10}, there));
    }
    all.push_back(joined({8 + known}));
    all.push_back(joined({8 + known, 1, 60, 0, 1, 0, 0}));
  }
  const auto no = net::encode(verdict{.taken = false, .why = "no"});
  all.push_back(joined({0, 99}, view{said_by_both("").second}.first(40),
                       joined({int(no.size()), 0, 0, 0}), no));
  return all;
}

} // namespace troupe::fuzz

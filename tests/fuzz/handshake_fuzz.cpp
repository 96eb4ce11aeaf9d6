// Fuzzes net/session/handshake: one side with arbitrary bytes, and two sides
// with an attacker between them.
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <optional>

using namespace troupe::net;
using side = handshake::side;
using state = handshake::state;

namespace troupe::fuzz {

namespace {

/// Maximum memory of a handshake in bytes. It is a generous bound for a
/// received message, a sent message, and their decoded contents.
constexpr std::size_t max_memory = 12 * max_hello_bytes;

nonce nonce_of(int seed) {
  nonce x;
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::byte>(seed + 7 * i);
  return x;
}

const hello& sample_hello() {
  static const hello x{.job = "job",
                       .name = "worker 1",
                       .incarnation = 7,
                       .purpose = "control",
                       .payload = bytes(3)};
  return x;
}

/// Makes one side of a handshake. Its nonce depends on the side and on `seed`.
/// The handshakes in the corpus have seed 1.
handshake make_handshake(side at, const std::string& secret, int seed = 1) {
  return at == side::dialer
           ? handshake{at, secret, nonce_of(seed), sample_hello()}
           : handshake{at, secret, nonce_of(seed + 100)};
}

/// Observable state of a handshake.
struct observed_state {
  state now;
  std::string reason;
  bytes sent_bytes;
  /// Bytes that the handshake has read. Zero after a failure.
  std::size_t consumed;
  friend bool operator==(const observed_state&,
                         const observed_state&) = default;
};

/// Passes bytes to the handshake in pieces until the handshake ends. Accepts
/// the peer's hello.
observed_state feed(handshake& machine, view left, std::size_t piece) {
  const auto total = left.size();
  bytes sent_bytes;
  const auto hear = [&] {
    append(sent_bytes, machine.unsent());
    machine.sent(machine.unsent().size());
  };
  hear();
  while (!left.empty() && machine.bytes_wanted() > 0) {
    const auto n = std::min({machine.bytes_wanted(), left.size(), piece});
    machine.receive(left.first(n));
    left = left.subspan(n);
    if (machine.current() == state::awaiting_decision)
      machine.respond(
        {.reason = {}, .payload = bytes(2), .responder = sample_hello()});
    hear();
  }
  const auto failed = machine.current() == state::failed;
  return {machine.current(), machine.reason(), sent_bytes,
          failed ? 0 : total - left.size()};
}

/// Passes arbitrary bytes to one side of a handshake.
/// @param insider true if the bytes may contain valid proofs. If false, their
///                sender does not know the secret, but may have recorded
///                another handshake.
void check_one_side(side at, const std::string& secret, bool insider,
                    view input, std::size_t piece) {
  const int seed = insider ? 1 : 2;
  std::optional<observed_state> whole;
  const auto memory = memory_of([&] {
    auto x = make_handshake(at, secret, seed);
    whole = feed(x, input, ~std::size_t{0});
  });
  require(memory <= max_memory, "memory is bounded");
  if (!insider && !secret.empty()) {
    require(whole->now != state::accepted
              && whole->now != state::awaiting_decision,
            "no connection without the secret");
    // a greeting of 40 bytes, then nothing or the verdict on a wrong proof
    const view answer = view{whole->sent_bytes}.subspan(
      std::min<std::size_t>(whole->sent_bytes.size(), 40));
    require(at == side::dialer || answer.empty()
              || std::ranges::equal(
                answer, std::as_bytes(std::span{wrong_secret_verdict})),
            "an outsider learns only that its proof is wrong");
  }
  auto again = make_handshake(at, secret, seed);
  require(feed(again, input, piece) == *whole,
          "bytes in any pieces have the same effect");
}

/// Runs both sides of a handshake with the same secret. An attacker changes
/// messages in transit.
void check_both_sides(const std::string& secret, choices& source) {
  auto dials = make_handshake(side::dialer, secret),
       accepts = make_handshake(side::acceptor, secret);
  bool changed = false;
  const auto pass = [&](handshake& speaker, handshake& hearer) {
    bytes message{speaker.unsent().begin(), speaker.unsent().end()};
    speaker.sent(message.size());
    const bytes before = message;
    for (auto times = source.below(3); times > 0 && !message.empty(); --times)
      message[source.number<std::uint16_t>() % message.size()] ^=
        source.number<std::uint8_t>() % 2 ? std::byte{1} : std::byte{0x80};
    if (source.below(8) == 7)
      message.resize(source.number<std::uint16_t>() % (message.size() + 1));
    if (source.below(8) == 7)
      append(message, source.take(source.below(64)));
    changed |= message != before;
    view left{message};
    while (!left.empty() && hearer.bytes_wanted() > 0) {
      const auto n =
        std::min({hearer.bytes_wanted(), left.size(), 1 + source.below(255)});
      hearer.receive(left.first(n));
      left = left.subspan(n);
    }
  };
  const hello_response yes{
    .reason = {}, .payload = bytes(5), .responder = sample_hello()};
  for (int turn = 0; turn < 4; ++turn) {
    pass(dials, accepts);
    if (accepts.current() == state::awaiting_decision)
      accepts.respond(yes);
    pass(accepts, dials);
  }
  const bool both =
    dials.current() == state::accepted && accepts.current() == state::accepted;
  require(changed || both, "two sides that know the secret connect");
  if (secret.empty())
    return;
  if (accepts.current() == state::accepted)
    require(accepts.peer() == sample_hello(), "a hello arrives unchanged");
  if (dials.current() == state::accepted)
    require(dials.payload() == yes.payload && dials.peer() == yes.responder,
            "a hello response arrives unchanged");
}

} // namespace

void try_one(view input) {
  choices source{input};
  const auto flags = source.number<std::uint8_t>();
  const std::string secret = flags & 1 ? "sesame" : "";
  if (flags & 8)
    return check_both_sides(secret, source);
  const std::size_t piece = 1 + source.number<std::uint8_t>();
  check_one_side(flags & 2 ? side::acceptor : side::dialer, secret, flags & 4,
                 source.rest(), piece);
}

namespace {

/// Returns the bytes that the dialer and the acceptor send in a successful
/// handshake.
std::pair<bytes, bytes> conversation(const std::string& secret) {
  auto dials = make_handshake(side::dialer, secret),
       accepts = make_handshake(side::acceptor, secret);
  bytes dialer_bytes, acceptor_bytes;
  const auto pass = [](handshake& speaker, handshake& hearer, bytes& log) {
    const bytes said{speaker.unsent().begin(), speaker.unsent().end()};
    speaker.sent(said.size());
    append(log, said);
    for (view left{said}; !left.empty();) {
      const auto n = std::min(left.size(), hearer.bytes_wanted());
      hearer.receive(left.first(n));
      left = left.subspan(n);
    }
  };
  for (int turn = 0; turn < 3; ++turn) {
    pass(dials, accepts, dialer_bytes);
    if (accepts.current() == state::awaiting_decision)
      accepts.respond(
        {.reason = {}, .payload = bytes(2), .responder = sample_hello()});
    pass(accepts, dials, acceptor_bytes);
  }
  require(dials.current() == state::accepted, "the seeds are valid");
  return {dialer_bytes, acceptor_bytes};
}

} // namespace

std::vector<bytes> seeds() {
  std::vector<bytes> inputs;
  for (const std::string secret : {"", "sesame"}) {
    const auto [there, back] = conversation(secret);
    const int known = !secret.empty();
    for (const int who : {0, 4}) {
      inputs.push_back(joined({who + known, 10}, back));
      inputs.push_back(joined({who + 2 + known, 10}, there));
    }
    inputs.push_back(joined({8 + known}));
    inputs.push_back(joined({8 + known, 1, 60, 0, 1, 0, 0}));
  }
  const auto no =
    net::encode(hello_response{.accepted = false, .reason = "no"});
  inputs.push_back(joined({0, 99}, view{conversation("").second}.first(40),
                          joined({int(no.size()), 0, 0, 0}), no));
  return inputs;
}

} // namespace troupe::fuzz

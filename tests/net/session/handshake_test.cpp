#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/support/mentions.hpp"

#include <gtest/gtest.h>

#include <random>

using troupe::test::mentions;
using namespace troupe::net;
using namespace troupe::net::testing;
using side = handshake::side;
using state = handshake::state;

namespace {

const hello worker{.job = "job",
                   .name = "worker 1",
                   .incarnation = 77,
                   .purpose = "control",
                   .payload = {std::byte{5}}};
hello named_hello(const std::string& name) {
  hello x;
  x.name = name;
  return x;
}

const hello_response yes{.payload = {std::byte{6}, std::byte{7}},
                         .responder = named_hello("chief")};

nonce some_nonce(unsigned seed) {
  std::mt19937 random{seed};
  nonce x;
  for (auto& b : x)
    b = std::byte(random());
  return x;
}

handshake dialer(std::string secret, unsigned seed = 1) {
  return {side::dialer, std::move(secret), some_nonce(seed), worker};
}

handshake acceptor(std::string secret, unsigned seed = 2) {
  return {side::acceptor, std::move(secret), some_nonce(seed)};
}

/// Returns all bytes that the handshake has to send, and marks them as sent.
std::vector<std::byte> take_unsent(handshake& x) {
  const auto all = x.unsent();
  std::vector<std::byte> bytes{all.begin(), all.end()};
  x.sent(bytes.size());
  return bytes;
}

/// Passes bytes to a handshake in pieces of at most `piece` bytes, as long as
/// it waits for bytes.
/// @returns the number of bytes passed.
std::size_t feed(handshake& receiver, std::span<const std::byte> bytes,
                 std::size_t piece = 1 << 20) {
  const auto total = bytes.size();
  while (!bytes.empty() && receiver.bytes_wanted() > 0) {
    const auto n = std::min({receiver.bytes_wanted(), bytes.size(), piece});
    receiver.receive(bytes.first(n));
    bytes = bytes.subspan(n);
  }
  return total - bytes.size();
}

/// Runs both sides of a handshake until neither side has bytes to send. Records
/// all sent bytes.
struct handshake_run {
  explicit handshake_run(handshake d, handshake a, std::size_t piece = 1 << 20)
    : dialing_side{std::move(d)}, accepting_side{std::move(a)} {
    for (bool moved = true; moved;) {
      const auto there = take_unsent(dialing_side),
                 back = take_unsent(accepting_side);
      dialer_sent.insert(dialer_sent.end(), there.begin(), there.end());
      acceptor_sent.insert(acceptor_sent.end(), back.begin(), back.end());
      feed(accepting_side, there, piece);
      feed(dialing_side, back, piece);
      moved = !there.empty() || !back.empty();
      if (accepting_side.current() == state::awaiting_decision)
        accepting_side.respond(response), moved = true;
    }
  }
  handshake dialing_side, accepting_side;
  hello_response response = yes;
  std::vector<std::byte> dialer_sent{}, acceptor_sent{};
};

/// Returns an acceptor after the exchange of greetings. Tests pass bytes to it
/// that no correct dialer sends.
handshake greeted_acceptor(const std::string& secret) {
  auto accepts = acceptor(secret);
  auto greeting = dialer(secret);
  feed(accepts, take_unsent(greeting));
  take_unsent(accepts);
  return accepts;
}

const std::string remedy =
  ": give both processes the same secret, by TROUPE_SECRET_FILE, "
  "TROUPE_SECRET or --secret-file";

/// True if the bytes are a greeting of 40 bytes and the verdict on a wrong
/// proof.
bool is_greeting_and_verdict(std::span<const std::byte> sent_bytes) {
  return sent_bytes.size() == 72
         && std::ranges::equal(sent_bytes.subspan(40),
                               bytes_of(wrong_secret_verdict));
}

} // namespace

TEST(Handshake, ExchangesHelloAndResponseInPiecesOfAnySize) {
  for (const auto* secret : {"", "sesame"})
    for (const std::size_t piece : {1, 3, 40, 1 << 20}) {
      const handshake_run run{dialer(secret), acceptor(secret), piece};
      EXPECT_EQ(run.dialing_side.current(), state::accepted)
        << run.dialing_side.reason() << run.accepting_side.reason();
      EXPECT_EQ(run.accepting_side.current(), state::accepted);
      EXPECT_EQ(run.accepting_side.peer(), worker);
      EXPECT_EQ(run.dialing_side.peer().name, "chief");
      EXPECT_EQ(run.dialing_side.payload(), yes.payload);
    }
}

TEST(Handshake, GivesBothSidesTheReasonOfARejection) {
  auto dials = dialer("s"), accepts = acceptor("s");
  feed(accepts, take_unsent(dials));
  feed(dials, take_unsent(accepts));
  feed(accepts, take_unsent(dials));
  ASSERT_EQ(accepts.current(), state::awaiting_decision) << accepts.reason();
  accepts.respond({.accepted = false, .reason = "another job"});
  feed(dials, take_unsent(accepts));
  EXPECT_EQ(accepts.current(), state::rejected);
  EXPECT_EQ(dials.current(), state::rejected);
  EXPECT_EQ(accepts.reason(), "another job");
  EXPECT_EQ(dials.reason(), "another job");
}

TEST(Handshake, TellsBothSidesThatTheSecretsDiffer) {
  for (const std::size_t piece : {1, 1 << 20}) {
    const handshake_run run{dialer("wrong"), acceptor("right"), piece};
    EXPECT_EQ(run.accepting_side.current(), state::wrong_secret);
    EXPECT_EQ(run.accepting_side.reason(),
              "it does not know the secret" + remedy);
    EXPECT_EQ(run.dialing_side.current(), state::wrong_secret);
    EXPECT_EQ(run.dialing_side.reason(),
              "its secret is another than that of this process" + remedy);
  }
}

/// What the acceptor sends depends neither on its secret nor on the wrong
/// proof, except for the nonce.
TEST(Handshake, SendsAWrongProofOnlyTheVerdict) {
  for (const auto* wrong : {"wrong", "righ", "right "})
    for (const auto* right : {"right", "another"}) {
      const handshake_run run{dialer(wrong), acceptor(right)};
      EXPECT_TRUE(is_greeting_and_verdict(run.acceptor_sent));
    }
}

TEST(Handshake, TellsBothSidesThatOnlyOneHasASecret) {
  const handshake_run run{dialer(""), acceptor("right")};
  EXPECT_EQ(run.accepting_side.current(), state::wrong_secret);
  EXPECT_EQ(run.accepting_side.reason(),
            "it has no secret, but one is required" + remedy);
  EXPECT_EQ(run.dialing_side.current(), state::wrong_secret);
  EXPECT_EQ(run.dialing_side.reason(),
            "it requires a secret, but none is set here" + remedy);
  EXPECT_EQ(run.acceptor_sent.size(), 40u); // only the greeting
  const handshake_run other_run{dialer("s"), acceptor("")};
  EXPECT_EQ(other_run.accepting_side.reason(),
            "it requires a secret, but none is set here" + remedy);
  EXPECT_EQ(other_run.dialing_side.reason(),
            "it has no secret, but one is required" + remedy);
  EXPECT_EQ(other_run.acceptor_sent.size(), 40u);
  EXPECT_EQ(other_run.dialer_sent.size(), 40u); // no proof
}

TEST(Handshake, TreatsTheVerdictOfADialerAsAWrongProof) {
  auto accepts = greeted_acceptor("right");
  feed(accepts, bytes_of(wrong_secret_verdict));
  EXPECT_EQ(accepts.reason(), "it does not know the secret" + remedy);
}

TEST(Handshake, DetectsAnImpostorAtTheDialer) {
  const handshake_run run{dialer("right"), acceptor("right")};
  auto dials = dialer("right", 9);
  feed(dials, run.acceptor_sent); // recorded in another handshake
  EXPECT_EQ(dials.current(), state::wrong_secret);
  EXPECT_EQ(dials.reason(), "it does not know the secret" + remedy);
}

TEST(Handshake, RejectsAReplay) {
  const handshake_run run{dialer("right"), acceptor("right")};
  // This acceptor has the seed 3, so its nonce differs from the nonce of the
  // acceptor to which the dialer sent the replayed bytes.
  auto accepts = acceptor("right", 3);
  feed(accepts, run.dialer_sent);
  EXPECT_EQ(accepts.current(), state::wrong_secret);
  EXPECT_TRUE(is_greeting_and_verdict(take_unsent(accepts)));
}

TEST(Handshake, RejectsAReflection) {
  auto dials = dialer("right");
  const auto greeting = take_unsent(dials);
  feed(dials, greeting); // its own greeting, so both nonces are equal
  const auto proof = take_unsent(dials);
  EXPECT_EQ(feed(dials, proof), 32u);
  EXPECT_EQ(dials.current(), state::wrong_secret);
}

TEST(Handshake, ReadsLittleBeforeTheSecretIsProven) {
  auto dials = dialer("wrong"), accepts = acceptor("right");
  auto taken = feed(accepts, take_unsent(dials));
  feed(dials, take_unsent(accepts));
  taken += feed(accepts, take_unsent(dials));
  EXPECT_EQ(taken, 72u);
  EXPECT_EQ(accepts.bytes_wanted(), 0u);
}

TEST(Handshake, RejectsAnyFlippedBit) {
  const handshake_run whole{dialer("right"), acceptor("right")};
  for (std::size_t position = 0; position < whole.dialer_sent.size();
       ++position) {
    // bytes 6 and 7 of the greeting are reserved
    if (position == 6 || position == 7)
      continue;
    auto sent_bytes = whole.dialer_sent;
    sent_bytes[position] ^= std::byte(1 << position % 8);
    auto accepts = acceptor("right");
    feed(accepts, sent_bytes);
    EXPECT_NE(accepts.current(), state::awaiting_decision)
      << "byte " << position;
  }
  for (std::size_t position = 8; position < whole.acceptor_sent.size();
       ++position) {
    auto sent_bytes = whole.acceptor_sent;
    sent_bytes[position] ^= std::byte(1 << position % 8);
    auto dials = dialer("right");
    feed(dials, sent_bytes);
    EXPECT_NE(dials.current(), state::accepted) << "byte " << position;
  }
}

TEST(Handshake, WaitsForTheRestOfATruncatedMessage) {
  const handshake_run whole{dialer("right"), acceptor("right")};
  for (std::size_t cut = 0; cut < whole.dialer_sent.size(); ++cut) {
    auto accepts = acceptor("right");
    feed(accepts, std::span{whole.dialer_sent}.first(cut));
    EXPECT_EQ(accepts.current(), state::in_progress);
    EXPECT_GT(accepts.bytes_wanted(), 0u);
  }
}

TEST(Handshake, RejectsAnotherVersionOnBothSidesWithBothNumbers) {
  auto dials = dialer("s"), accepts = acceptor("s");
  auto greeting = take_unsent(dials);
  greeting[4] = std::byte{9};
  feed(accepts, greeting);
  EXPECT_EQ(accepts.current(), state::rejected);
  EXPECT_EQ(accepts.reason(), "version 9 of the handshake is used by the peer, "
                              "but version 1 by this process");
  auto back = take_unsent(accepts);
  back[4] = std::byte{9};
  feed(dials, back);
  EXPECT_EQ(dials.current(), state::rejected);
  EXPECT_TRUE(mentions(dials.reason(), "version 9"));
}

TEST(Handshake, DetectsAnotherProtocolByItsFirstByte) {
  auto accepts = acceptor("");
  EXPECT_EQ(feed(accepts, bytes_of("GET / HTTP/1.1"), 1), 1u);
  EXPECT_EQ(accepts.reason(), "it uses another protocol");
}

TEST(Handshake, RejectsALongHelloBeforeAllocation) {
  for (const std::uint32_t length : {65'537u, ~0u}) {
    auto accepts = greeted_acceptor("");
    std::byte claim[4];
    store_le(claim, length);
    feed(accepts, claim);
    EXPECT_EQ(accepts.current(), state::failed);
    EXPECT_TRUE(mentions(accepts.reason(), "65536 is the limit"));
  }
}

TEST(Handshake, ReportsThePositionInAMalformedHello) {
  auto accepts = greeted_acceptor("");
  std::byte message[7]{};
  store_le(message, std::uint32_t{3});
  feed(accepts, message);
  EXPECT_EQ(accepts.current(), state::failed);
  EXPECT_TRUE(mentions(accepts.reason(), "its hello is malformed: byte 0"));
  auto empty = greeted_acceptor("");
  feed(empty, std::span{message}.last(3));
  feed(empty, std::span{message}.last(1));
  EXPECT_EQ(empty.current(), state::failed);
}

TEST(Handshake, AcceptsAHelloUpToTheLimit) {
  auto longest = worker;
  longest.payload.resize(max_hello_bytes - encode(worker).size() + 1);
  EXPECT_TRUE(handshake::fits(longest));
  const handshake_run run{{side::dialer, "s", some_nonce(1), longest},
                          acceptor("s")};
  EXPECT_EQ(run.accepting_side.peer(), longest);
  longest.payload.emplace_back();
  EXPECT_FALSE(handshake::fits(longest));
  EXPECT_THROW((handshake{side::dialer, "s", some_nonce(1), longest}),
               std::logic_error);
}

TEST(Handshake, TurnsAResponseBeyondTheLimitIntoARejection) {
  auto dials = dialer(""), accepts = acceptor("");
  feed(accepts, take_unsent(dials));
  feed(dials, take_unsent(accepts));
  feed(accepts, take_unsent(dials));
  hello_response x;
  x.payload.resize(max_hello_bytes);
  accepts.respond(x);
  feed(dials, take_unsent(accepts));
  EXPECT_EQ(dials.current(), state::rejected);
  EXPECT_EQ(dials.reason(), accepts.reason());
}

TEST(Handshake, SurvivesRandomBytes) {
  std::mt19937 random{17};
  for (int i = 0; i < 3000; ++i) {
    const auto secret = i % 2 ? "s" : "";
    auto target = i % 4 < 2 ? acceptor(secret) : dialer(secret);
    auto other = i % 4 < 2 ? dialer(secret) : acceptor(secret);
    if (i % 3)
      feed(target, take_unsent(other));
    std::vector<std::byte> bytes(random() % 300);
    for (auto& b : bytes)
      b = std::byte(random() % (i % 5 ? 256 : 2));
    feed(target, bytes, 1 + random() % 50);
    EXPECT_NE(target.current(), state::accepted);
  }
}

TEST(Handshake, UsesANewNonceEachTime) {
  EXPECT_NE(random_nonce(), random_nonce());
}

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/session/handshake.hpp"
#include "troupe/tests/net/io/streams.hpp"

#include <gtest/gtest.h>

#include <random>

using namespace troupe::net;
using namespace troupe::net::testing;
using side = handshake::side;
using state = handshake::state;

namespace {

const hello worker{.job = "job",
                   .name = "worker 1",
                   .incarnation = 77,
                   .purpose = "control",
                   .note = {std::byte{5}}};
hello hello_of(const std::string& name) {
  hello x;
  x.name = name;
  return x;
}

const verdict yes{.note = {std::byte{6}, std::byte{7}},
                  .who = hello_of("chief")};

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

/// Takes all bytes that it has to send.
std::vector<std::byte> said_by(handshake& x) {
  const auto all = x.unsent();
  std::vector<std::byte> bytes{all.begin(), all.end()};
  x.sent(bytes.size());
  return bytes;
}

/// Passes as many bytes as it accepts, a piece at a time.
/// @returns the number of these bytes.
std::size_t tell(handshake& to, std::span<const std::byte> bytes,
                 std::size_t piece = 1 << 20) {
  const auto all = bytes.size();
  while (!bytes.empty() && to.wants() > 0) {
    const auto n = std::min({to.wants(), bytes.size(), piece});
    to.take(bytes.first(n));
    bytes = bytes.subspan(n);
  }
  return all - bytes.size();
}

/// Runs both sides until neither has bytes to send, and records all sent bytes.
struct meeting {
  explicit meeting(handshake d, handshake a, std::size_t piece = 1 << 20)
    : dials{std::move(d)}, accepts{std::move(a)} {
    for (bool moved = true; moved;) {
      const auto there = said_by(dials), back = said_by(accepts);
      dialer_said.insert(dialer_said.end(), there.begin(), there.end());
      acceptor_said.insert(acceptor_said.end(), back.begin(), back.end());
      tell(accepts, there, piece);
      tell(dials, back, piece);
      moved = !there.empty() || !back.empty();
      if (accepts.now() == state::asked)
        accepts.answer(answer), moved = true;
    }
  }
  handshake dials, accepts;
  verdict answer = yes;
  std::vector<std::byte> dialer_said{}, acceptor_said{};
};

/// An acceptor after the exchange of greetings, for bytes that a dialer would
/// not send.
handshake greeted_acceptor(const std::string& secret) {
  auto accepts = acceptor(secret);
  auto greeting = dialer(secret);
  tell(accepts, said_by(greeting));
  said_by(accepts);
  return accepts;
}

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

} // namespace

TEST(Handshake, ExchangesHelloAndResponseInPiecesOfAnySize) {
  for (const auto* secret : {"", "sesame"})
    for (const std::size_t piece : {1, 3, 40, 1 << 20}) {
      const meeting x{dialer(secret), acceptor(secret), piece};
      EXPECT_EQ(x.dials.now(), state::taken)
        << x.dials.why() << x.accepts.why();
      EXPECT_EQ(x.accepts.now(), state::taken);
      EXPECT_EQ(x.accepts.peer(), worker);
      EXPECT_EQ(x.dials.peer().name, "chief");
      EXPECT_EQ(x.dials.note(), yes.note);
    }
}

TEST(Handshake, GivesBothSidesTheReasonOfARejection) {
  auto dials = dialer("s"), accepts = acceptor("s");
  tell(accepts, said_by(dials));
  tell(dials, said_by(accepts));
  tell(accepts, said_by(dials));
  ASSERT_EQ(accepts.now(), state::asked) << accepts.why();
  accepts.answer({.taken = false, .why = "another job"});
  tell(dials, said_by(accepts));
  EXPECT_EQ(accepts.now(), state::refused);
  EXPECT_EQ(dials.now(), state::refused);
  EXPECT_EQ(accepts.why(), "another job");
  EXPECT_EQ(dials.why(), "another job");
}

TEST(Handshake, FailsWithoutAResponseToAWrongSecret) {
  const meeting x{dialer("wrong"), acceptor("right")};
  EXPECT_EQ(x.accepts.now(), state::failed);
  EXPECT_EQ(x.accepts.why(), "it does not know the secret");
  EXPECT_EQ(x.dials.now(), state::speaking);
  EXPECT_EQ(x.acceptor_said.size(), 40u); // its greeting
}

TEST(Handshake, SendsNoGreetingToAnotherMode) {
  const meeting x{dialer(""), acceptor("right")};
  EXPECT_EQ(x.accepts.why(), "it has no secret, but one is required");
  EXPECT_TRUE(x.acceptor_said.empty());
  const meeting y{dialer("s"), acceptor("")};
  EXPECT_EQ(y.accepts.why(), "it requires a secret, but none is set here");
  EXPECT_TRUE(y.acceptor_said.empty());
}

TEST(Handshake, DetectsAnImpostorAtTheDialer) {
  const meeting x{dialer("right"), acceptor("right")};
  auto dials = dialer("right", 9);
  tell(dials, x.acceptor_said); // of another handshake
  EXPECT_EQ(dials.now(), state::failed);
  EXPECT_EQ(dials.why(), "it does not know the secret");
}

TEST(Handshake, RejectsAReplay) {
  const meeting x{dialer("right"), acceptor("right")};
  auto accepts = acceptor("right", 3); // its nonce is new
  tell(accepts, x.dialer_said);
  EXPECT_EQ(accepts.now(), state::failed);
  EXPECT_EQ(said_by(accepts).size(), 40u);
}

TEST(Handshake, RejectsAReflection) {
  auto dials = dialer("right");
  const auto greeting = said_by(dials);
  tell(dials, greeting); // the same nonce on both sides
  const auto proof = said_by(dials);
  EXPECT_EQ(tell(dials, proof), 32u);
  EXPECT_EQ(dials.now(), state::failed);
}

TEST(Handshake, ReadsLittleBeforeTheSecretIsProven) {
  auto dials = dialer("wrong"), accepts = acceptor("right");
  auto taken = tell(accepts, said_by(dials));
  tell(dials, said_by(accepts));
  taken += tell(accepts, said_by(dials));
  EXPECT_EQ(taken, 72u);
  EXPECT_EQ(accepts.wants(), 0u);
}

TEST(Handshake, RejectsAnyFlippedBit) {
  const meeting whole{dialer("right"), acceptor("right")};
  for (std::size_t at = 0; at < whole.dialer_said.size(); ++at) {
    if (at == 6 || at == 7) // these two are not checked
      continue;
    auto said = whole.dialer_said;
    said[at] ^= std::byte(1 << at % 8);
    auto accepts = acceptor("right");
    tell(accepts, said);
    EXPECT_NE(accepts.now(), state::asked) << "byte " << at;
  }
  for (std::size_t at = 8; at < whole.acceptor_said.size(); ++at) {
    auto said = whole.acceptor_said;
    said[at] ^= std::byte(1 << at % 8);
    auto dials = dialer("right");
    tell(dials, said);
    EXPECT_NE(dials.now(), state::taken) << "byte " << at;
  }
}

TEST(Handshake, WaitsForTheRestOfATruncatedMessage) {
  const meeting whole{dialer("right"), acceptor("right")};
  for (std::size_t cut = 0; cut < whole.dialer_said.size(); ++cut) {
    auto accepts = acceptor("right");
    tell(accepts, std::span{whole.dialer_said}.first(cut));
    EXPECT_EQ(accepts.now(), state::speaking);
    EXPECT_GT(accepts.wants(), 0u);
  }
}

TEST(Handshake, RejectsAnotherVersionOnBothSidesWithBothNumbers) {
  auto dials = dialer("s"), accepts = acceptor("s");
  auto greeting = said_by(dials);
  greeting[4] = std::byte{9};
  tell(accepts, greeting);
  EXPECT_EQ(accepts.now(), state::refused);
  EXPECT_EQ(accepts.why(), "version 9 of the handshake is used by the peer, "
                           "but version 1 by this process");
  auto back = said_by(accepts);
  back[4] = std::byte{9};
  tell(dials, back);
  EXPECT_EQ(dials.now(), state::refused);
  EXPECT_TRUE(mentions(dials.why(), "version 9"));
}

TEST(Handshake, DetectsAnotherProtocolByItsFirstByte) {
  auto accepts = acceptor("");
  EXPECT_EQ(tell(accepts, bytes_of("GET / HTTP/1.1"), 1), 1u);
  EXPECT_EQ(accepts.why(), "it does not speak this protocol");
}

TEST(Handshake, RejectsALongHelloBeforeAllocation) {
  for (const std::uint32_t length : {65'537u, ~0u}) {
    auto accepts = greeted_acceptor("");
    std::byte claim[4];
    store_le(claim, length);
    tell(accepts, claim);
    EXPECT_EQ(accepts.now(), state::failed);
    EXPECT_TRUE(mentions(accepts.why(), "65536 is the limit"));
  }
}

TEST(Handshake, ReportsThePositionInAMalformedHello) {
  auto accepts = greeted_acceptor("");
  std::byte letter[7]{};
  store_le(letter, std::uint32_t{3});
  tell(accepts, letter);
  EXPECT_EQ(accepts.now(), state::failed);
  EXPECT_TRUE(mentions(accepts.why(), "its hello is malformed: byte 0"));
  auto empty = greeted_acceptor("");
  tell(empty, std::span{letter}.last(3));
  tell(empty, std::span{letter}.last(1));
  EXPECT_EQ(empty.now(), state::failed);
}

TEST(Handshake, AcceptsAHelloUpToTheLimit) {
  auto longest = worker;
  longest.note.resize(most_hello_bytes - encode(worker).size() + 1);
  EXPECT_TRUE(handshake::fits(longest));
  const meeting x{{side::dialer, "s", some_nonce(1), longest}, acceptor("s")};
  EXPECT_EQ(x.accepts.peer(), longest);
  longest.note.emplace_back();
  EXPECT_FALSE(handshake::fits(longest));
  EXPECT_THROW((handshake{side::dialer, "s", some_nonce(1), longest}),
               std::logic_error);
}

TEST(Handshake, TurnsAResponseBeyondTheLimitIntoARejection) {
  auto dials = dialer(""), accepts = acceptor("");
  tell(accepts, said_by(dials));
  tell(dials, said_by(accepts));
  tell(accepts, said_by(dials));
  verdict x;
  x.note.resize(most_hello_bytes);
  accepts.answer(x);
  tell(dials, said_by(accepts));
  EXPECT_EQ(dials.now(), state::refused);
  EXPECT_EQ(dials.why(), accepts.why());
}

TEST(Handshake, SurvivesRandomBytes) {
  std::mt19937 random{17};
  for (int i = 0; i < 3000; ++i) {
    const auto secret = i % 2 ? "s" : "";
    auto x = i % 4 < 2 ? acceptor(secret) : dialer(secret);
    auto y = i % 4 < 2 ? dialer(secret) : acceptor(secret);
    if (i % 3)
      tell(x, said_by(y));
    std::vector<std::byte> bytes(random() % 300);
    for (auto& b : bytes)
      b = std::byte(random() % (i % 5 ? 256 : 2));
    tell(x, bytes, 1 + random() % 50);
    EXPECT_NE(x.now(), state::taken);
  }
}

TEST(Handshake, UsesANewNonceEachTime) {
  EXPECT_NE(random_nonce(), random_nonce());
}

#include "troupe/net/session/handshake.hpp"

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/net/security/hmac.hpp"
#include "troupe/net/session/hello.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace troupe::net {

namespace {

constexpr std::string_view magic = "TRPH";
constexpr std::size_t version_offset = 4, mode_offset = 5, nonce_offset = 8;
constexpr std::size_t greeting_size = nonce_offset + nonce_size;
constexpr std::size_t length_size = 4;
/// Maximum size in bytes of a rejection's reason; a longer text is cut.
constexpr std::size_t max_reason_bytes = 1000;
/// Labels at the start of the data of both HMACs, the proof and the seal. All
/// have one length. Each side has its own labels, so that an attacker cannot
/// send a side's message back to that side as a message of its peer.
constexpr std::string_view proof_labels[] = {"troupe-1 dialer proof   ",
                                             "troupe-1 acceptor proof "};
constexpr std::string_view seal_labels[] = {"troupe-1 dialer letter  ",
                                            "troupe-1 acceptor letter"};

std::size_t index(handshake::side x) {
  return static_cast<std::size_t>(x);
}

std::span<const std::byte> bytes(std::string_view x) {
  return std::as_bytes(std::span{x});
}

static_assert(wrong_secret_verdict.size() == sizeof(hmac));

hmac make_hmac(std::string_view secret, std::string_view label,
               handshake::side own_side, const nonce& own_nonce,
               const nonce& peer_nonce, std::span<const std::byte> body = {}) {
  const auto dialed = own_side == handshake::side::dialer;
  return hmac_sha256(secret, {bytes(label), dialed ? own_nonce : peer_nonce,
                              dialed ? peer_nonce : own_nonce, body});
}

} // namespace

nonce random_nonce() {
  nonce x;
  random_bytes(x);
  return x;
}

bool handshake::fits(const hello& x) {
  return encode(x).size() <= max_hello_bytes;
}

handshake::handshake(side own_side, std::string secret, const nonce& own_nonce,
                     hello own_hello)
  : side_{own_side},
    secret_{std::move(secret)},
    own_nonce_{own_nonce},
    own_hello_{std::move(own_hello)} {
  if (own_side == side::dialer && !fits(own_hello_))
    throw std::logic_error{"a hello of more than "
                           + std::to_string(max_hello_bytes) + " bytes"};
  expect(stage::greeting, greeting_size);
  if (side_ == side::dialer)
    greet();
}

handshake::side handshake::peer_side() const {
  return side_ == side::dialer ? side::acceptor : side::dialer;
}

std::size_t handshake::seal_size() const {
  return secret_.empty() ? 0 : sizeof(hmac);
}

std::size_t handshake::bytes_wanted() const {
  return state_ == state::in_progress ? awaited_bytes_ - received_.size() : 0;
}

std::span<const std::byte> handshake::unsent() const {
  return std::span{output_}.subspan(sent_);
}

void handshake::sent(std::size_t count) {
  sent_ += count;
}

void handshake::expect(stage next_stage, std::size_t count) {
  stage_ = next_stage;
  awaited_bytes_ = count;
  received_.clear();
}

void handshake::fail(std::string reason) {
  state_ = state::failed;
  reason_ = std::move(reason);
}

void handshake::end_as_wrong_secret(const std::string& problem) {
  fail(problem
       + ": give both processes the same secret, by TROUPE_SECRET_FILE, "
         "TROUPE_SECRET or --secret-file");
  state_ = state::wrong_secret;
}

void handshake::receive(std::span<const std::byte> received) {
  if (received.size() > bytes_wanted())
    throw std::logic_error{
      "a handshake received " + std::to_string(received.size())
      + " bytes, but waits for " + std::to_string(bytes_wanted())};
  received_.insert(received_.end(), received.begin(), received.end());
  if (stage_ == stage::greeting // the first bytes of another protocol differ
      && !std::equal(received_.begin(),
                     received_.begin()
                       + std::min(received_.size(), magic.size()),
                     bytes(magic).begin()))
    return fail("it uses another protocol");
  if (received_.size() < awaited_bytes_)
    return;
  switch (stage_) {
    case stage::greeting:
      return on_greeting();
    case stage::proof:
      return on_proof();
    case stage::length:
      return on_length();
    case stage::message:
      return on_message();
  }
}

void handshake::greet() {
  output_.resize(greeting_size);
  std::ranges::copy(bytes(magic), output_.begin());
  output_[version_offset] = std::byte{handshake_version};
  output_[mode_offset] = std::byte{!secret_.empty()};
  std::ranges::copy(own_nonce_, output_.begin() + nonce_offset);
}

void handshake::on_greeting() {
  const auto version = std::to_integer<unsigned>(received_[version_offset]);
  const auto mode = received_[mode_offset];
  const auto same_version = version == handshake_version;
  if (side_ == side::acceptor)
    greet(); // so that the dialer can compare the versions and the modes
  if (!same_version) {
    fail("version " + std::to_string(version) + " of the handshake is used"
         + " by the peer, but version " + std::to_string(handshake_version)
         + " by this process");
    state_ = state::rejected;
    return;
  }
  if (mode != std::byte{!secret_.empty()})
    return end_as_wrong_secret(secret_.empty()
                                 ? "it requires a secret, but none is set here"
                                 : "it has no secret, but one is required");
  std::copy_n(received_.begin() + nonce_offset, nonce_size,
              peer_nonce_.begin());
  if (side_ == side::dialer)
    send_message(encode(own_hello_));
  if (secret_.empty())
    expect(stage::length, length_size);
  else
    expect(stage::proof, sizeof(hmac));
}

void handshake::on_proof() {
  if (constant_time_equal(received_,
                          make_hmac(secret_, proof_labels[index(peer_side())],
                                    side_, own_nonce_, peer_nonce_)))
    return expect(stage::length, length_size);
  const auto verdict = bytes(wrong_secret_verdict);
  if (side_ == side::dialer && std::ranges::equal(received_, verdict))
    return end_as_wrong_secret("its secret is another than that of this "
                               "process");
  if (side_ == side::acceptor)
    output_.insert(output_.end(), verdict.begin(), verdict.end());
  end_as_wrong_secret("it does not know the secret");
}

void handshake::on_length() {
  const auto length = load_le<std::uint32_t>(received_.data());
  if (length > max_hello_bytes)
    return fail("its message has " + std::to_string(length) + " bytes, but "
                + std::to_string(max_hello_bytes) + " is the limit");
  expect(stage::message, length + seal_size());
  if (awaited_bytes_ == 0)
    on_message();
}

void handshake::on_message() {
  const auto body =
    std::span<const std::byte>{received_}.first(received_.size() - seal_size());
  if (!secret_.empty()
      && !constant_time_equal(std::span{received_}.last(seal_size()),
                              make_hmac(secret_,
                                        seal_labels[index(peer_side())], side_,
                                        own_nonce_, peer_nonce_, body)))
    return fail("its message was modified in transit");
  read_message(body);
  received_ = {};
}

void handshake::read_message(std::span<const std::byte> body) {
  if (side_ == side::acceptor) {
    if (const auto bad = decode(body, peer_hello_))
      return fail("its hello is malformed: " + to_string(*bad));
    state_ = state::awaiting_decision;
    return;
  }
  hello_response response;
  if (const auto bad = decode(body, response))
    return fail("its response is malformed: " + to_string(*bad));
  peer_hello_ = std::move(response.responder);
  payload_ = std::move(response.payload);
  state_ = response.accepted ? state::accepted : state::rejected;
  reason_ = printable(response.reason, max_reason_bytes);
}

/// Sends the proof, then the message and its seal. The peer verifies the proof
/// before it reads the message.
void handshake::send_message(std::span<const std::byte> body) {
  const auto append = [this](std::span<const std::byte> x) {
    output_.insert(output_.end(), x.begin(), x.end());
  };
  if (!secret_.empty())
    append(make_hmac(secret_, proof_labels[index(side_)], side_, own_nonce_,
                     peer_nonce_));
  std::array<std::byte, length_size> length;
  store_le(length.data(), static_cast<std::uint32_t>(body.size()));
  append(length);
  append(body);
  if (!secret_.empty())
    append(make_hmac(secret_, seal_labels[index(side_)], side_, own_nonce_,
                     peer_nonce_, body));
}

void handshake::respond(hello_response response) {
  if (state_ != state::awaiting_decision)
    throw std::logic_error{"a handshake does not await a response"};
  auto body = encode(response);
  if (body.size() > max_hello_bytes) {
    response = {.accepted = false, .reason = "the response to it is too long"};
    body = encode(response);
  }
  send_message(body);
  state_ = response.accepted ? state::accepted : state::rejected;
  reason_ = std::move(response.reason);
}

} // namespace troupe::net

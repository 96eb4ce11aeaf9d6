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
constexpr std::size_t version_at = 4, mode_at = 5, nonce_at = 8;
constexpr std::size_t greeting_size = nonce_at + nonce_size;
constexpr std::size_t length_size = 4;
/// Maximum length of a rejection's reason that is shown.
constexpr std::size_t most_why_bytes = 1000;
/// Labels of a proof and of a seal, all of one length. They differ by
/// direction, so that a message cannot be reflected.
constexpr std::string_view proof_of[] = {"troupe-1 dialer proof   ",
                                         "troupe-1 acceptor proof "};
constexpr std::string_view seal_of[] = {"troupe-1 dialer letter  ",
                                        "troupe-1 acceptor letter"};

std::size_t index(handshake::side x) {
  return static_cast<std::size_t>(x);
}

std::span<const std::byte> bytes(std::string_view x) {
  return std::as_bytes(std::span{x});
}

proof made(std::string_view secret, std::string_view label,
           handshake::side mine, const nonce& my, const nonce& their,
           std::span<const std::byte> body = {}) {
  const auto dialed = mine == handshake::side::dialer;
  return prove(secret,
               {bytes(label), dialed ? my : their, dialed ? their : my, body});
}

} // namespace

nonce random_nonce() {
  nonce x;
  fill_randomly(x);
  return x;
}

bool handshake::fits(const hello& x) {
  return encode(x).size() <= most_hello_bytes;
}

handshake::handshake(side at, std::string secret, const nonce& mine, hello own)
  : at_{at}, secret_{std::move(secret)}, mine_{mine}, own_{std::move(own)} {
  if (at == side::dialer && !fits(own_))
    throw std::logic_error{"a hello of more than "
                           + std::to_string(most_hello_bytes) + " bytes"};
  expect(part::greeting, greeting_size);
  if (at_ == side::dialer)
    greet();
}

handshake::side handshake::other() const {
  return at_ == side::dialer ? side::acceptor : side::dialer;
}

std::size_t handshake::seal_size() const {
  return secret_.empty() ? 0 : sizeof(proof);
}

std::size_t handshake::wants() const {
  return state_ == state::speaking ? awaited_ - in_.size() : 0;
}

std::span<const std::byte> handshake::unsent() const {
  return std::span{out_}.subspan(sent_);
}

void handshake::sent(std::size_t count) {
  sent_ += count;
}

void handshake::expect(part what, std::size_t count) {
  part_ = what;
  awaited_ = count;
  in_.clear();
}

void handshake::fail(std::string why) {
  state_ = state::failed;
  why_ = std::move(why);
}

void handshake::take(std::span<const std::byte> from) {
  if (from.size() > wants())
    throw std::logic_error{"a handshake received " + std::to_string(from.size())
                           + " bytes, but waits for "
                           + std::to_string(wants())};
  in_.insert(in_.end(), from.begin(), from.end());
  if (part_ == part::greeting // another protocol is detected by its first bytes
      && !std::equal(in_.begin(),
                     in_.begin() + std::min(in_.size(), magic.size()),
                     bytes(magic).begin()))
    return fail("it does not speak this protocol");
  if (in_.size() < awaited_)
    return;
  switch (part_) {
    case part::greeting:
      return on_greeting();
    case part::proof:
      return on_proof();
    case part::length:
      return on_length();
    case part::letter:
      return on_letter();
  }
}

void handshake::greet() {
  out_.resize(greeting_size);
  std::ranges::copy(bytes(magic), out_.begin());
  out_[version_at] = std::byte{handshake_version};
  out_[mode_at] = std::byte{!secret_.empty()};
  std::ranges::copy(mine_, out_.begin() + nonce_at);
}

void handshake::on_greeting() {
  const auto version = std::to_integer<unsigned>(in_[version_at]);
  const auto mode = in_[mode_at];
  const auto same_version = version == handshake_version;
  if (at_ == side::acceptor
      && (!same_version || mode == std::byte{!secret_.empty()}))
    greet(); // the other side learns the version from it
  if (!same_version) {
    fail("version " + std::to_string(version) + " of the handshake is used"
         + " by the peer, but version " + std::to_string(handshake_version)
         + " by this process");
    state_ = state::refused;
    return;
  }
  if (mode != std::byte{!secret_.empty()})
    return fail(secret_.empty() ? "it requires a secret, but none is set here"
                                : "it has no secret, but one is required");
  std::copy_n(in_.begin() + nonce_at, nonce_size, theirs_.begin());
  if (at_ == side::dialer)
    send_letter(encode(own_));
  if (secret_.empty())
    expect(part::length, length_size);
  else
    expect(part::proof, sizeof(proof));
}

void handshake::on_proof() {
  if (!is_same(in_,
               made(secret_, proof_of[index(other())], at_, mine_, theirs_)))
    return fail("it does not know the secret");
  expect(part::length, length_size);
}

void handshake::on_length() {
  const auto length = load_le<std::uint32_t>(in_.data());
  if (length > most_hello_bytes)
    return fail("its message has " + std::to_string(length) + " bytes, but "
                + std::to_string(most_hello_bytes) + " is the limit");
  expect(part::letter, length + seal_size());
  if (awaited_ == 0)
    on_letter();
}

void handshake::on_letter() {
  const auto body =
    std::span<const std::byte>{in_}.first(in_.size() - seal_size());
  if (!secret_.empty()
      && !is_same(
        std::span{in_}.last(seal_size()),
        made(secret_, seal_of[index(other())], at_, mine_, theirs_, body)))
    return fail("its message was modified in transit");
  read_letter(body);
  in_ = {};
}

void handshake::read_letter(std::span<const std::byte> body) {
  if (at_ == side::acceptor) {
    if (const auto bad = decode(body, peer_))
      return fail("its hello is malformed: " + to_string(*bad));
    state_ = state::asked;
    return;
  }
  verdict x;
  if (const auto bad = decode(body, x))
    return fail("its response is malformed: " + to_string(*bad));
  peer_ = std::move(x.who);
  note_ = std::move(x.note);
  state_ = x.taken ? state::taken : state::refused;
  why_ = printable(x.why, most_why_bytes);
}

/// The proof precedes the first message, so that the other side need not read a
/// message of an unauthenticated peer.
void handshake::send_letter(std::span<const std::byte> body) {
  const auto put = [this](std::span<const std::byte> x) {
    out_.insert(out_.end(), x.begin(), x.end());
  };
  if (!secret_.empty())
    put(made(secret_, proof_of[index(at_)], at_, mine_, theirs_));
  std::array<std::byte, length_size> length;
  store_le(length.data(), static_cast<std::uint32_t>(body.size()));
  put(length);
  put(body);
  if (!secret_.empty())
    put(made(secret_, seal_of[index(at_)], at_, mine_, theirs_, body));
}

void handshake::answer(verdict x) {
  if (state_ != state::asked)
    throw std::logic_error{"a handshake does not await a response"};
  auto body = encode(x);
  if (body.size() > most_hello_bytes) {
    x = {.taken = false, .why = "the response to it is too long"};
    body = encode(x);
  }
  send_letter(body);
  state_ = x.taken ? state::taken : state::refused;
  why_ = std::move(x.why);
}

} // namespace troupe::net

#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/security/tls.hpp"
#include "troupe/tests/net/io/streams.hpp"
#include "troupe/tests/net/security/certificates.hpp"
#include "troupe/tests/support/error_text.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <openssl/pem.h>
#include <sys/stat.h>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

using status = stream::status;
using two = std::pair<std::unique_ptr<stream>, std::unique_ptr<stream>>;

two clear() {
  const auto x = socket_pair();
  return {wrap_socket(x[0]), wrap_socket(x[1])};
}

class TlsStream : public certificate_test {
protected:
  static two under(const files& dialer, const files& acceptor) {
    const auto x = socket_pair();
    return {tls{dialer}.wrap(x[0], tls::side::dialer),
            tls{acceptor}.wrap(x[1], tls::side::acceptor)};
  }
  /// Returns the results of a TLS handshake at the acceptor (first) and at the
  /// dialer (second). A result is the final status, and a text that ends with
  /// the stream's problem.
  static std::pair<received, received> handshake_results(two sockets) {
    auto remote = pass(*sockets.first, *sockets.second, "hello");
    remote.text += sockets.second->problem();
    sockets.second->close();
    auto back = received{};
    std::vector<std::byte> piece(100);
    for (int i = 0; i < 3 && back.state != status::closed; ++i)
      back.state = sockets.first->read_some(piece).state;
    back.text = sockets.first->problem();
    return {remote, back};
  }
};

std::string letters(std::size_t count) {
  std::string x(count, ' ');
  for (std::size_t i = 0; i < count; ++i)
    x[i] = char('a' + (i * i + i / 7) % 26);
  return x;
}

void carries_both_ways(stream& left, stream& right) {
  const auto text = letters(3'000'000);
  EXPECT_TRUE(pass(left, right, text).text == text);
  EXPECT_TRUE(pass(right, left, text).text == text);
}

/// Checks that the bytes arrive if the sender writes until the stream is full,
/// the receiver then reads everything, and both repeat this.
void continues_after_partial_transfer(stream& sender, stream& receiver) {
  const auto text = letters(2'000'000);
  pass(sender, receiver, "x"); // completes the TLS handshake
  pass(receiver, sender, "y");
  std::string got;
  std::vector<std::byte> piece(70'000);
  for (auto rest = bytes_of(text); got.size() < text.size();) {
    while (!rest.empty()) {
      const auto half = rest.size() > 100 ? 64 : rest.size();
      const auto x = sender.write_some(rest.first(half), rest.subspan(half));
      rest = rest.subspan(x.bytes);
      if (x.state != status::ok)
        break;
    }
    for (stream::io_result x;
         (x = receiver.read_some(piece)).state == status::ok;)
      got += text_of(std::span{piece}.first(x.bytes));
  }
  EXPECT_TRUE(got == text);
}

void closes_without_a_signal(stream& left, stream& right) {
  pass(left, right, "x");
  right.close();
  const auto text = letters(100'000);
  stream::io_result x;
  for (int i = 0; i < 9 && (x = left.write_some(bytes_of(text))).bytes > 0; ++i)
    ;
  EXPECT_EQ(x.state, status::closed) << left.problem();
  EXPECT_FALSE(left.problem().empty());
  EXPECT_EQ(left.write_some(bytes_of(text)).state, status::closed);
}

} // namespace

TEST(SocketStream, TransfersBytesBothWays) {
  const auto [left, right] = clear();
  carries_both_ways(*left, *right);
}

TEST(SocketStream, ContinuesAfterAPartialTransfer) {
  const auto [left, right] = clear();
  continues_after_partial_transfer(*left, *right);
}

TEST(SocketStream, ClosesWithoutASignalIfThePeerIsGone) {
  const auto [left, right] = clear();
  closes_without_a_signal(*left, *right);
}

TEST(SocketStream, ReportsTheEventItWaitsFor) {
  const auto [left, right] = clear();
  std::vector<std::byte> piece(10);
  EXPECT_EQ(left->read_some(piece).state, status::wants_read);
  right->close();
  EXPECT_EQ(left->read_some(piece).state, status::closed);
}

TEST_F(TlsStream, TransfersBytesBothWays) {
  const auto [left, right] = under(good("a"), good("b"));
  carries_both_ways(*left, *right);
}

TEST_F(TlsStream, ContinuesAfterAPartialTransfer) {
  const auto [left, right] = under(good("a"), good("b"));
  continues_after_partial_transfer(*left, *right);
}

TEST_F(TlsStream, ClosesWithoutASignalIfThePeerIsGone) {
  const auto [left, right] = under(good("a"), good("b"));
  closes_without_a_signal(*left, *right);
}

TEST_F(TlsStream, FailsIfABitChangesInTransit) {
  const auto near = socket_pair(), far = socket_pair();
  const auto left = tls{good("a")}.wrap(near[0], tls::side::dialer);
  const auto right = tls{good("b")}.wrap(far[0], tls::side::acceptor);
  const auto before = wrap_socket(near[1]), behind = wrap_socket(far[1]);
  std::vector<std::byte> piece(10'000);
  const auto carry = [&](stream& from, stream& target, std::byte change) {
    const auto came = from.read_some(piece);
    if (came.bytes == 0)
      return;
    piece[came.bytes / 2] ^= change;
    target.write_some(std::span{piece}.first(came.bytes));
  };
  const auto received_by = [&](std::byte change) {
    std::vector<std::byte> bytes(100);
    stream::io_result wrote, read;
    for (int i = 0; i < 20 && read.bytes == 0; ++i) {
      if (wrote.bytes == 0)
        wrote = left->write_some(bytes_of("hello"));
      carry(*before, *behind, change);
      read = right->read_some(bytes);
      carry(*behind, *before, {});
    }
    return read;
  };
  ASSERT_EQ(received_by({}).bytes, 5u);
  EXPECT_EQ(received_by(std::byte{1}).state, status::failed);
  EXPECT_NE(right->problem().find("TLS"), std::string::npos);
}

TEST_F(TlsStream, ReportsBufferedBytesThatPollDoesNotSee) {
  const auto [left, right] = under(good("a"), good("b"));
  pass(*left, *right, "x");
  pass(*right, *left, "y");
  ASSERT_EQ(left->write_some(bytes_of("four")).bytes, 4u);
  std::vector<std::byte> piece(3);
  EXPECT_FALSE(right->has_buffered());
  ASSERT_EQ(right->read_some(piece).bytes, 3u);
  EXPECT_TRUE(right->has_buffered());
}

TEST_F(TlsStream, ReportsBytesThatArriveWithTheEndOfTheHandshake) {
  const auto [left, right] = under(good("a"), good("b"));
  EXPECT_EQ(left->write_some(bytes_of("hello")).state, status::wants_read);
  EXPECT_EQ(right->write_some(bytes_of("x")).state, status::wants_read);
  ASSERT_EQ(left->write_some(bytes_of("hello")).bytes, 5u);
  ASSERT_EQ(right->write_some(bytes_of("x")).bytes, 1u);
  EXPECT_TRUE(right->has_buffered());
  std::vector<std::byte> piece(100);
  EXPECT_EQ(right->read_some(piece).bytes, 5u);
  EXPECT_FALSE(right->has_buffered());
}

TEST_F(TlsStream, RejectsAnExpiredCertificateOfEitherSide) {
  const auto dialer = handshake_results(under(expired(), good()));
  EXPECT_EQ(dialer.first.state, status::failed);
  EXPECT_EQ(dialer.first.text, "TLS: certificate verify failed: certificate "
                               "has expired; the other side needs a "
                               "certificate and an authority that are valid "
                               "now");
  EXPECT_NE(dialer.second.text.find("expired; this side needs"),
            std::string::npos)
    << dialer.second.text;
  auto [left, right] = under(good(), expired());
  EXPECT_EQ(pass(*left, *right, "hello").state, status::failed);
  EXPECT_NE(left->problem().find("expired"), std::string::npos);
}

TEST_F(TlsStream, RejectsACertificateThatIsNotValidYet) {
  const auto dialer = handshake_results(under(not_valid_yet(), good()));
  EXPECT_EQ(dialer.first.state, status::failed);
  EXPECT_NE(dialer.first.text.find("not yet valid; the other side needs"),
            std::string::npos)
    << dialer.first.text;
  EXPECT_NE(dialer.second.text.find("may not be valid yet: compare its dates"),
            std::string::npos)
    << dialer.second.text;
}

TEST_F(TlsStream, RefusesAKeyThatOthersCanRead) {
  const auto files = good();
  for (const mode_t mode : {0644, 0640, 0604, 0660}) {
    ASSERT_EQ(::chmod(files.key.c_str(), mode), 0);
    const auto said = troupe::test::text_of([&] { tls{files}; });
    EXPECT_EQ(said, "TLS: the key in '" + files.key
                      + "' cannot be used: users other than its owner may "
                        "access it; run chmod 600 on it");
  }
  ASSERT_EQ(::chmod(files.key.c_str(), 0400), 0);
  EXPECT_NO_THROW(tls{files});
}

TEST_F(TlsStream, SaysThatAKeyHasAPassword) {
  const auto files = good();
  const std::string text = text_of("good.key");
  const std::unique_ptr<BIO, int (*)(BIO*)> from{
    BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free},
    to{BIO_new_file(files.key.c_str(), "w"), BIO_free};
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key{
    PEM_read_bio_PrivateKey(from.get(), nullptr, nullptr, nullptr),
    EVP_PKEY_free};
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(to.get(), key.get(),
                                          EVP_aes_256_cbc(), "word", 4, nullptr,
                                          nullptr),
            1);
  ASSERT_EQ(BIO_flush(to.get()), 1);
  const auto said = troupe::test::text_of([&] { tls{files}; });
  EXPECT_NE(said.find("has a password"), said.npos) << said;
  EXPECT_NE(said.find("openssl pkey"), said.npos) << said;
}

TEST_F(TlsStream, RejectsACertificateOfAnotherAuthority) {
  const auto foreign_results = handshake_results(under(foreign(), good()));
  EXPECT_EQ(foreign_results.first.state, status::failed);
  EXPECT_NE(
    foreign_results.first.text.find("unable to get local issuer certificate"),
    std::string::npos)
    << foreign_results.first.text;
  EXPECT_NE(foreign_results.second.text.find(
              "unknown ca; the certificate of this side is "
              "not of the authority"),
            std::string::npos)
    << foreign_results.second.text;
}

TEST_F(TlsStream, RejectsAPeerWithoutTls) {
  const auto x = socket_pair();
  const auto left = wrap_socket(x[0]);
  const auto right = tls{good()}.wrap(x[1], tls::side::acceptor);
  EXPECT_EQ(pass(*left, *right, letters(1000)).state, status::failed);
  EXPECT_NE(right->problem().find("TLS: "), std::string::npos);
}

TEST_F(TlsStream, NamesTheUnusableFile) {
  auto x = good();
  x.key = (folder / "none.key").string();
  try {
    tls{x};
    FAIL();
  } catch (const std::invalid_argument& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("none.key"), std::string::npos) << said;
    EXPECT_NE(said.find("No such file"), std::string::npos) << said;
  }
  auto mismatched = good("other");
  mismatched.key = good().key;
  try {
    tls{mismatched};
    FAIL();
  } catch (const std::invalid_argument& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("not that of the certificate"), said.npos) << said;
    EXPECT_NE(said.find(mismatched.certificate), said.npos) << said;
  }
}

#include "troupe/net/security/tls.hpp"

#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/security/tls_bio.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509err.h>
#include <optional>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe::net {

namespace {

template <auto Free>
struct ssl_deleter {
  template <class T>
  void operator()(T* x) const {
    Free(x);
  }
};
using ssl_ptr = std::unique_ptr<SSL, ssl_deleter<SSL_free>>;
using ctx_ptr = std::unique_ptr<SSL_CTX, ssl_deleter<SSL_CTX_free>>;

/// Maximum size of a peer's certificate chain in bytes.
constexpr long max_certificate_bytes = 32 * 1024;

/// Returns the text of the first OpenSSL error of this thread, and clears all
/// its errors.
std::string take_error() {
  const auto code = ERR_get_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code))
    return std::generic_category().message(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason ? reason : "unknown error " + std::to_string(code);
}

/// Returns a text that names the side at fault and a remedy. Empty: no remedy
/// is known.
/// @param reason OpenSSL's code of the error.
/// @param verified result of verifying the peer's certificate.
std::string remedy_for(int reason, long verified) {
  switch (verified) {
    case X509_V_OK:
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "; the other side needs a certificate and an authority that are "
             "valid now";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "; the other side needs a certificate of the authority that is "
             "trusted here";
    default:
      return "";
  }
  switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "; the certificate of this side is not of the authority that the "
             "other side trusts";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "; this side needs a certificate that is valid now";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
      return "; the other side does not accept the certificate of this side, "
             "which may not be valid yet: compare its dates with the clocks of "
             "both sides";
    case SSL_R_WRONG_VERSION_NUMBER:
      return "; the other side may not use TLS";
    default:
      return "";
  }
}

// -- the stream ---------------------------------------------------------------

class tls_stream final : public stream {
public:
  tls_stream(int descriptor, ssl_ptr ssl)
    : descriptor_{descriptor}, ssl_{std::move(ssl)} {}
  ~tls_stream() override { close(); }
  tls_stream(const tls_stream&) = delete;
  tls_stream& operator=(const tls_stream&) = delete;

  SSL* ssl() { return ssl_.get(); }

  io_result read_some(std::span<std::byte> target) override {
    if (!ssl_ || broken_)
      return closed_result();
    ERR_clear_error();
    std::size_t n = 0;
    const auto done = SSL_read_ex(ssl_.get(), target.data(), target.size(), &n);
    const auto x = outcome(done, n);
    drained_ = x.state != status::ok;
    return x;
  }

  /// Encrypts up to `records_per_syscall` records and sends them by one system
  /// call. If the socket does not accept all of them, the result is
  /// `wants_write`, and later calls send the rest. The bytes count as
  /// transferred when all records are sent.
  io_result write_some(std::span<const std::byte> first,
                       std::span<const std::byte> second) override {
    if (!ssl_ || broken_)
      return closed_result();
    if (sealed_ > first.size() + second.size())
      throw std::logic_error{
        "TLS has encrypted more bytes than this write passes again"};
    if (!SSL_is_init_finished(ssl_.get()))
      // TLS may read records ahead together with the peer's last handshake
      // message
      drained_ = false;
    ERR_clear_error();
    if (sealed_ == 0)
      if (const auto x = seal(first, second); sealed_ == 0)
        return x;
    if (BIO_flush(SSL_get_wbio(ssl_.get())) <= 0)
      return not_sent();
    return {std::exchange(sealed_, 0), status::ok};
  }

  bool has_buffered() const override {
    return ssl_ && !broken_ && !drained_
           && (SSL_pending(ssl_.get())
               || BIO_pending(SSL_get_rbio(ssl_.get())));
  }
  bool is_authentic() const override { return true; }
  int descriptor() const override { return descriptor_; }
  std::string problem() const override { return problem_; }

  void close() override {
    if (descriptor_ < 0)
      return;
    ERR_clear_error();
    if (!broken_ && SSL_is_init_finished(ssl_.get()))
      SSL_shutdown(ssl_.get());
    ERR_clear_error();
    ssl_.reset();
    ::close(std::exchange(descriptor_, -1));
  }

private:
  io_result closed_result() const {
    return {0, broken_.value_or(status::closed)};
  }

  io_result end(status how, std::string why) {
    broken_ = how;
    problem_ = std::move(why);
    return {0, how};
  }

  /// Encrypts up to `records_per_syscall` records, and returns the result of
  /// the last one.
  io_result seal(std::span<const std::byte> first,
                 std::span<const std::byte> second) {
    io_result result{0, status::ok};
    for (std::size_t i = 0;
         i < records_per_syscall && result.state == status::ok
         && !(first.empty() && second.empty());
         ++i) {
      if (first.empty())
        first = std::exchange(second, {});
      result = seal_one(first, second);
      sealed_ += result.bytes;
      const auto of_first = std::min(result.bytes, first.size());
      first = first.subspan(of_first);
      second = second.subspan(result.bytes - of_first);
    }
    return result;
  }

  /// Encrypts one record. It holds bytes of `first`, and then of `second` if
  /// there is space.
  io_result seal_one(std::span<const std::byte> first,
                     std::span<const std::byte> second) {
    if (!second.empty() && first.size() < record_.size()) {
      const auto rest = std::min(record_.size() - first.size(), second.size());
      std::memcpy(record_.data(), first.data(), first.size());
      std::memcpy(record_.data() + first.size(), second.data(), rest);
      first = std::span{record_}.first(first.size() + rest);
    }
    std::size_t n = 0;
    const auto done = SSL_write_ex(ssl_.get(), first.data(), first.size(), &n);
    return outcome(done, n);
  }

  io_result not_sent() {
    const auto error = errno;
    if (BIO_should_write(SSL_get_wbio(ssl_.get())))
      return {0, status::wants_write};
    return end(status::closed, std::generic_category().message(error));
  }

  io_result outcome(int done, std::size_t n) {
    if (done == 1)
      return {n, status::ok};
    const auto error = errno;
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
        return {0, status::wants_read};
      case SSL_ERROR_WANT_WRITE:
        return {0, status::wants_write};
      case SSL_ERROR_ZERO_RETURN:
        return end(status::closed, "the other side closed the connection");
      case SSL_ERROR_SYSCALL:
        return end(status::closed, error
                                     ? std::generic_category().message(error)
                                     : "the connection was cut");
      default:
        return fail_from_openssl();
    }
  }

  io_result fail_from_openssl() {
    if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
      return end(status::closed, "the connection was cut");
    const auto verified = SSL_get_verify_result(ssl_.get());
    const auto reason = ERR_GET_REASON(ERR_peek_error());
    auto why = "TLS: " + take_error();
    if (verified != X509_V_OK)
      why += std::string{": "} + X509_verify_cert_error_string(verified);
    why += remedy_for(reason, verified);
    return end(status::failed, std::move(why));
  }

  int descriptor_;
  ssl_ptr ssl_;
  std::optional<status> broken_;
  std::string problem_;
  /// True if the bytes read ahead hold no complete record.
  bool drained_ = true;
  /// Number of plaintext bytes in the records that `write_some` has encrypted,
  /// but has not yet reported as transferred. `write_some` reports them when
  /// all of these records are sent. Zero: no record waits to be sent.
  std::size_t sealed_ = 0;
  /// Buffer that joins `first` and `second` to the plaintext of one record.
  std::array<std::byte, SSL3_RT_MAX_PLAIN_LENGTH> record_;
};

/// Checks that no other user can read a key.
void check_access(const std::string& key) {
  struct stat file {};
  if (::stat(key.c_str(), &file) == 0 && S_ISREG(file.st_mode)
      && (file.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw std::invalid_argument{
      "TLS: the key in '" + key
      + "' cannot be used: users other than its owner may access it; run "
        "chmod 600 on it"};
}

/// Notes that a key has a password, and gives none.
int refuse_password(char*, int, int, void* is_wanted) {
  *static_cast<bool*>(is_wanted) = true;
  return 0;
}

[[noreturn]] void cannot_use(const char* what, const std::string& file) {
  throw std::invalid_argument{std::string{"TLS: cannot use "} + what + " in '"
                              + file + "' (" + take_error()
                              + "): use a readable PEM file"};
}

} // namespace

struct tls::context {
  ctx_ptr ssl_context;
};

tls::tls(const credentials::certificates& files) {
  ERR_clear_error();
  ctx_ptr ssl_context{SSL_CTX_new(TLS_method())};
  if (!ssl_context
      || !SSL_CTX_set_min_proto_version(ssl_context.get(), TLS1_3_VERSION))
    throw std::runtime_error{"TLS 1.3 is not available: " + take_error()};
  SSL_CTX_set_ciphersuites(ssl_context.get(), // the fastest is first
                           "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                           "TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_options(ssl_context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(ssl_context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ssl_context.get(), 0);
  SSL_CTX_set_max_cert_list(ssl_context.get(), max_certificate_bytes);
  SSL_CTX_set_mode(ssl_context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE
                                        | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(ssl_context.get(),
                     SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  if (!SSL_CTX_load_verify_file(ssl_context.get(), files.authority.c_str()))
    cannot_use("the authority", files.authority);
  if (!SSL_CTX_use_certificate_chain_file(ssl_context.get(),
                                          files.certificate.c_str()))
    cannot_use("the certificate", files.certificate);
  check_access(files.key);
  bool has_password = false;
  SSL_CTX_set_default_passwd_cb(ssl_context.get(), refuse_password);
  SSL_CTX_set_default_passwd_cb_userdata(ssl_context.get(), &has_password);
  if (!SSL_CTX_use_PrivateKey_file(ssl_context.get(), files.key.c_str(),
                                   SSL_FILETYPE_PEM)
      || !SSL_CTX_check_private_key(ssl_context.get())) {
    if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
      throw std::invalid_argument{"TLS: the key in '" + files.key
                                  + "' is not that of the certificate in '"
                                  + files.certificate
                                  + "': use the key that belongs to it"};
    if (has_password)
      throw std::invalid_argument{
        "TLS: the key in '" + files.key
        + "' has a password, which nothing could enter here: give a key "
          "without one, as `openssl pkey -in KEY -out NEW` writes it"};
    cannot_use("the key", files.key);
  }
  SSL_CTX_set_default_passwd_cb(ssl_context.get(), nullptr);
  SSL_CTX_set_default_passwd_cb_userdata(ssl_context.get(), nullptr);
  context_ = std::make_shared<context>(context{std::move(ssl_context)});
}

std::unique_ptr<stream> tls::wrap(int descriptor, side role) const {
  ssl_ptr ssl{SSL_new(context_->ssl_context.get())};
  if (!ssl) {
    ::close(descriptor);
    throw std::bad_alloc{};
  }
  auto wrapped = std::make_unique<tls_stream>(descriptor, std::move(ssl));
  auto* socket = make_tls_bio(descriptor);
  SSL_set_bio(wrapped->ssl(), socket, socket);
  if (role == side::dialer)
    SSL_set_connect_state(wrapped->ssl());
  else
    SSL_set_accept_state(wrapped->ssl());
  prepare_socket(descriptor);
  return wrapped;
}

} // namespace troupe::net

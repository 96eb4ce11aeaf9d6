#include "troupe/net/security/certificates.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdexcept>

namespace {

using namespace troupe::net;
using clock = std::chrono::system_clock;
using std::chrono::hours;

using certificate_ptr = std::shared_ptr<X509>;

certificate_ptr read(const std::string& text) {
  BIO* in = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  certificate_ptr it{PEM_read_bio_X509(in, nullptr, nullptr, nullptr),
                     X509_free};
  BIO_free(in);
  return it;
}

/// Verifies a certificate with OpenSSL. Returns X509_V_OK or the error.
int verify_result(const certified_key& authority,
                  const certified_key& certificate, const char* host = nullptr,
                  int purpose = X509_PURPOSE_SSL_SERVER) {
  const std::shared_ptr<X509_STORE> trusted{X509_STORE_new(), X509_STORE_free};
  X509_STORE_add_cert(trusted.get(), read(authority.certificate).get());
  const std::shared_ptr<X509_STORE_CTX> context{X509_STORE_CTX_new(),
                                                X509_STORE_CTX_free};
  const auto it = read(certificate.certificate);
  X509_STORE_CTX_init(context.get(), trusted.get(), it.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  auto* rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT);
  if (host && X509_VERIFY_PARAM_set1_ip_asc(rules, host) != 1)
    X509_VERIFY_PARAM_set1_host(rules, host, 0);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

class Certificates : public ::testing::Test {
protected:
  certified_key authority = make_authority({.name = "an authority"});
};

TEST_F(Certificates, AreValidOnBothSidesOfAConnection) {
  const auto x = make_certificate(authority, {});
  EXPECT_EQ(verify_result(authority, x), X509_V_OK);
  EXPECT_EQ(verify_result(authority, x, nullptr, X509_PURPOSE_SSL_CLIENT),
            X509_V_OK);
}

TEST_F(Certificates, AreValidForTheirHostsOnly) {
  const auto certificate = make_certificate(
    authority, {.hosts = {"worker-1.example", "10.1.2.3", "fd00::1"}});
  for (const auto* host : {"worker-1.example", "10.1.2.3", "fd00::1"})
    EXPECT_EQ(verify_result(authority, certificate, host), X509_V_OK) << host;
  EXPECT_EQ(verify_result(authority, certificate, "worker-2.example"),
            X509_V_ERR_HOSTNAME_MISMATCH);
  EXPECT_EQ(verify_result(authority, certificate, "10.1.2.4"),
            X509_V_ERR_IP_ADDRESS_MISMATCH);
}

TEST_F(Certificates, OfAnotherAuthorityWithTheSameNameAreInvalid) {
  const auto other = make_authority({.name = "an authority"});
  EXPECT_NE(verify_result(authority, make_certificate(other, {})), X509_V_OK);
}

TEST_F(Certificates, ExpireAtTheirNotAfterTime) {
  const auto now = clock::now();
  const auto late = make_certificate(
    authority, {.not_before = now - hours{2}, .not_after = now - hours{1}});
  EXPECT_EQ(verify_result(authority, late), X509_V_ERR_CERT_HAS_EXPIRED);
  const auto early = make_certificate(
    authority, {.not_before = now + hours{1}, .not_after = now + hours{2}});
  EXPECT_EQ(verify_result(authority, early), X509_V_ERR_CERT_NOT_YET_VALID);
}

TEST_F(Certificates, CannotSignOthers) {
  const auto worker = make_certificate(authority, {});
  EXPECT_THROW(make_certificate(worker, {}), invalid_authority);
  EXPECT_THROW(make_certificate({authority.certificate, worker.key}, {}),
               invalid_authority);
}

TEST_F(Certificates, DifferInKeyAndSerialNumber) {
  const auto a = make_certificate(authority, {});
  const auto b = make_certificate(authority, {});
  EXPECT_NE(a.key, b.key);
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(read(a.certificate).get()),
                             X509_get0_serialNumber(read(b.certificate).get())),
            0);
}

TEST_F(Certificates, RejectInvalidHostsNamesAndTimes) {
  for (const std::string host :
       {"", "a b", "a,DNS:b", "..", "1.2.3.4/8", "a\n", "*"})
    EXPECT_THROW(make_certificate(authority, {.hosts = {host}}),
                 std::invalid_argument)
      << host;
  EXPECT_THROW(make_authority({.name = ""}), std::invalid_argument);
  EXPECT_THROW(make_authority({.name = std::string(65, 'a')}),
               std::invalid_argument);
  const auto now = clock::now();
  EXPECT_THROW(make_authority({.not_before = now, .not_after = now}),
               std::invalid_argument);
}

TEST_F(Certificates, RejectAnAuthorityThatIsNotPem) {
  for (const auto& bad : {certified_key{}, certified_key{"text", "text"},
                          certified_key{authority.certificate, ""},
                          certified_key{"", authority.key}})
    EXPECT_THROW(make_certificate(bad, {}), invalid_authority);
}

} // namespace

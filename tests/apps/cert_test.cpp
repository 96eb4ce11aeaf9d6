#include "tool.hpp"

#include <gtest/gtest.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace {

using namespace troupe;
namespace fs = std::filesystem;

using certificate_ptr = std::shared_ptr<X509>;

class Cert : public tool_test {
protected:
  certificate_ptr read(const std::string& name) const {
    const auto text = text_of(name);
    BIO* input = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
    certificate_ptr it{PEM_read_bio_X509(input, nullptr, nullptr, nullptr),
                       X509_free};
    BIO_free(input);
    EXPECT_TRUE(it) << name;
    return it;
  }

  /// Verifies a certificate. Returns OpenSSL's result: X509_V_OK or an error.
  int verification_result(const std::string& name) const {
    const std::shared_ptr<X509_STORE> trusted{X509_STORE_new(),
                                              X509_STORE_free};
    X509_STORE_add_cert(trusted.get(), read("c/authority.pem").get());
    const std::shared_ptr<X509_STORE_CTX> context{X509_STORE_CTX_new(),
                                                  X509_STORE_CTX_free};
    const auto it = read(name);
    X509_STORE_CTX_init(context.get(), trusted.get(), it.get(), nullptr);
    X509_verify_cert(context.get());
    return X509_STORE_CTX_get_error(context.get());
  }

  fs::perms mode_of(const std::string& name) const {
    return fs::status(folder / name).permissions();
  }
};

TEST_F(Cert, CreatesAnAuthorityAndACertificate) {
  const auto done = troupe("cert --out c");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "c/worker.pem\nc/worker.key\n");
  EXPECT_EQ(verification_result("c/worker.pem"), X509_V_OK);
  const auto x = read("c/worker.pem");
  EXPECT_EQ(X509_check_host(x.get(), "localhost", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(x.get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(x.get(), "::1", 0), 1);
  for (const auto* key : {"c/worker.key", "c/authority.key"})
    EXPECT_EQ(mode_of(key), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Cert, ReusesAnExistingAuthority) {
  ASSERT_EQ(troupe("cert --out c --name worker-1 --hosts one.example").code, 0);
  const auto authority = text_of("c/authority.pem");
  const auto done =
    troupe("cert --out c --name worker-2 --hosts two.example,10.0.0.2 "
           "--days 1");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(text_of("c/authority.pem"), authority);
  EXPECT_EQ(verification_result("c/worker-1.pem"), X509_V_OK);
  EXPECT_EQ(verification_result("c/worker-2.pem"), X509_V_OK);
  const auto x = read("c/worker-2.pem");
  EXPECT_EQ(X509_check_host(x.get(), "two.example", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(x.get(), "one.example", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(x.get(), "10.0.0.2", 0), 1);
  int days = 0, seconds = 0;
  ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(x.get()));
  EXPECT_LE(days, 1);
}

TEST_F(Cert, OverwritesNothing) {
  ASSERT_EQ(troupe("cert --out .").code, 0);
  const auto key = text_of("worker.key");
  expect_rejected("cert --out .", 1, {"worker.pem", "is kept", "--name"});
  EXPECT_EQ(text_of("worker.key"), key);
  put("other.key", "mine");
  expect_rejected("cert --out . --name other", 1, {"other.key", "is kept"});
  EXPECT_EQ(text_of("other.key"), "mine");
}

TEST_F(Cert, NamesFilesThatAreNoAuthority) {
  put("authority.pem", "text");
  expect_rejected("cert --out .", 1, {"authority.key", "missing"});
  put("authority.key", "text");
  expect_rejected("cert --out .", 1, {"authority.pem", "use a PEM file"});
}

TEST_F(Cert, NamesADirectoryThatCannotBeCreated) {
  put("file", "text");
  expect_rejected("cert --out file", 1, {"--out \"file\"", "Not a directory"});
  expect_rejected("cert --out /proc/c", 1,
                  {"--out \"/proc/c\"", "name another"});
}

TEST_F(Cert, RejectsInvalidOptions) {
  expect_rejected("cert", 2, {"--out"});
  expect_rejected("cert --out c --days 0", 2, {"--days 0:", "from 1 to 3650"});
  expect_rejected("cert --out c --name ../x", 2, {"--name \"../x\":"});
  expect_rejected("cert --out c --name ''", 2, {"--name \"\":"});
  expect_rejected("cert --out c --name authority", 2, {"--name authority:"});
  expect_rejected("cert --out c --hosts a/b", 2,
                  {"a/b", "use a name or an address"});
  expect_rejected("cert --out c --hosts a,", 2, {"--hosts a,:", "empty"});
}

} // namespace

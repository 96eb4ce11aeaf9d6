#include "troupe/net/security/credentials.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/support/variable_is.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

using namespace troupe::net;
using troupe::variable_is;

namespace {

class Secret : public troupe::scratch_test {
protected:
  std::string file(std::string_view text, mode_t mode = 0600) const {
    put("secret", text);
    const auto name = (folder / "secret").string();
    EXPECT_EQ(::chmod(name.c_str(), mode), 0);
    return name;
  }
  static std::string complaint(const std::string& file) {
    try {
      read_secret(file);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "none";
  }
};

} // namespace

TEST_F(Secret, IsTheBytesOfAFileWithoutTheLastLineBreak) {
  EXPECT_EQ(read_secret(file("open sesame\n")), "open sesame");
  EXPECT_EQ(read_secret(file("open\nsesame\r\n")), "open\nsesame");
  EXPECT_EQ(read_secret(file(" x ")), " x ");
  EXPECT_EQ(read_secret(file("x", 0400)), "x");
}

TEST_F(Secret, AccessibleToOthersIsRejected) {
  for (const mode_t mode : {0640, 0604, 0602, 0660, 0610})
    EXPECT_NE(complaint(file("x", mode)).find("chmod 600"), std::string::npos);
}

TEST_F(Secret, MissingOrEmptyOrHugeIsRejectedWithItsName) {
  const auto none = (folder / "none").string();
  EXPECT_EQ(complaint(none), "the secret in '" + none
                               + "' cannot be used: No such file or directory");
  EXPECT_NE(complaint(file("\n")).find("empty"), std::string::npos);
  EXPECT_NE(complaint(file(std::string(5000, 'x'))).find("more than 4096"),
            std::string::npos);
  EXPECT_NE(complaint(folder.string()).find("not a regular file"),
            std::string::npos);
}

TEST_F(Secret, ComesFromTheEnvironmentOrTheFileThatItNames) {
  EXPECT_EQ(secret_from_environment(), "");
  const variable_is named{"TROUPE_SECRET_FILE", file("from a file\n").c_str()};
  EXPECT_EQ(secret_from_environment(), "from a file");
  const variable_is itself{"TROUPE_SECRET", "itself"};
  EXPECT_THROW(secret_from_environment(), std::invalid_argument);
  ::unsetenv("TROUPE_SECRET_FILE");
  EXPECT_EQ(secret_from_environment(), "itself");
}

TEST(Credentials, ComeFromTheEnvironment) {
  const variable_is none{"TROUPE_SECRET_FILE", nullptr};
  EXPECT_TRUE(credentials_from_environment().none());
  const variable_is secret{"TROUPE_SECRET", "open sesame"};
  EXPECT_EQ(credentials_from_environment().secret, "open sesame");
  const variable_is ca{"TROUPE_TLS_CA", "ca.pem"};
  EXPECT_THROW(credentials_from_environment(), std::invalid_argument);
  const variable_is own{"TROUPE_TLS_CERTIFICATE", "own.pem"};
  const variable_is key{"TROUPE_TLS_KEY", "key.pem"};
  const auto all = credentials_from_environment();
  ASSERT_TRUE(all.tls);
  EXPECT_EQ(all.tls->authority, "ca.pem");
  EXPECT_EQ(all.tls->certificate, "own.pem");
  EXPECT_EQ(all.tls->key, "key.pem");
}

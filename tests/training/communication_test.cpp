#include "troupe/training/multi_worker.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

using namespace troupe;
using how = communication_options::implementations;

std::string refused(const communication_options& x) {
  try {
    check(x);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(Communication, RefusesWhatCannotBeOrIsNotThere) {
  check(communication_options{});
  check(communication_options{.implementation = how::tree});
  const auto has = [](const communication_options& x, const char* a,
                      const char* b) {
    const auto said = refused(x);
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find(b), said.npos) << said;
  };
  has({.bytes_per_pack = -1}, "bytes_per_pack -1", "0");
  has({.timeout = std::chrono::milliseconds{0}}, "timeout 0 ms", "1 ms");
  check(communication_options{.implementation = how::ring});
  has({.implementation = how::nccl}, "nccl", "tree or ring");
}

TEST(Communication, ReadsNamesInAnyCase) {
  EXPECT_EQ(parse_implementation("AUTO"), how::automatic);
  EXPECT_EQ(parse_implementation("tree"), how::tree);
  EXPECT_EQ(parse_implementation("Ring"), how::ring);
  EXPECT_EQ(parse_implementation("NCCL"), how::nccl);
  EXPECT_THROW(parse_implementation("smoke"), std::invalid_argument);
}

/// Sets a variable, or unsets it, until it goes.
struct variable_is {
  variable_is(const char* name, const char* value) : name{name} {
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~variable_is() { ::unsetenv(name); }
  const char* name;
};

TEST(Communication, TakesCredentialsFromTheEnvironment) {
  using net::credentials_from_environment;
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

} // namespace

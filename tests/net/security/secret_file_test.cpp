#include "troupe/net/security/secret_file.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace {

namespace fs = std::filesystem;
using troupe::net::secret_file;

std::string text_of(const fs::path& file) {
  std::ifstream in{file};
  return {std::istreambuf_iterator<char>{in}, {}};
}

TEST(SecretFile, IsNewAndReadableByItsOwnerOnly) {
  const secret_file a, b;
  EXPECT_EQ(fs::status(a.path()).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(a.path().parent_path()).permissions(),
            fs::perms::owner_all);
  EXPECT_EQ(text_of(a.path()).size(), 65u);
  EXPECT_NE(text_of(a.path()), text_of(b.path()));
}

TEST(SecretFile, IsRemovedWithItsFolder) {
  fs::path folder;
  {
    const secret_file x;
    folder = x.path().parent_path();
    EXPECT_TRUE(fs::exists(folder));
  }
  EXPECT_FALSE(fs::exists(folder));
}

} // namespace

#include "troupe/training/support/sha256.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace {

using namespace troupe;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

// The hash of "abc" equals the example in FIPS 180-2, appendix B.1. The hash of
// the empty message equals NIST's test vector (SHA256ShortMsg, Len = 0).
TEST(Sha256, MatchesPublishedVectors) {
  EXPECT_EQ(to_hex(sha256{}.finish()), "e3b0c44298fc1c149afbf4c8996fb924"
                                       "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256{}.add(bytes("abc")).finish()),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, IsIndependentOfThePieces) {
  EXPECT_EQ(sha256{}.add(bytes("abc")).finish(),
            sha256{}.add(bytes("a")).add({}).add(bytes("bc")).finish());
}

} // namespace

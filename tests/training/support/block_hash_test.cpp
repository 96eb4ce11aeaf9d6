#include "troupe/tensors/context.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/training/support/block_hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace {

using namespace troupe;

std::vector<std::byte> random_bytes(std::size_t n) {
  random_stream draw{{.seed = 3}};
  std::vector<std::byte> out(n);
  for (auto& x : out)
    x = std::byte(int(draw.uniform(0, 256)));
  return out;
}

/// The definition in the header, with one word at a time.
std::uint64_t by_definition(std::span<const std::byte> all,
                            std::uint64_t seed) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
  };
  const auto add = [](std::uint64_t h, std::uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
  };
  auto sum = mix(seed ^ all.size());
  for (std::uint64_t b = 0; b * 32'768 < all.size(); ++b) {
    const auto block = all.subspan(
      b * 32'768, std::min<std::size_t>(32'768, all.size() - b * 32'768));
    std::uint64_t h[8];
    for (std::uint64_t lane = 0; lane < 8; ++lane)
      h[lane] = mix(seed) + b + lane;
    for (std::size_t stripe = 0; stripe < block.size(); stripe += 64)
      for (std::size_t lane = 0; lane < 8; ++lane) {
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < 8; ++i)
          if (const auto at = stripe + lane * 8 + i; at < block.size())
            word |= std::uint64_t(block[at]) << (8 * i);
        h[lane] = add(h[lane], word);
      }
    std::uint64_t out = block.size();
    for (const auto one : h)
      out = add(out, one);
    sum += mix(out);
  }
  return sum;
}

TEST(BlockHash, IsThatOfItsDefinition) {
  const auto bytes = random_bytes(100'000);
  for (const std::size_t n : {0, 1, 63, 64, 65, 32'768, 32'769, 100'000})
    for (const std::uint64_t seed : {0, 5})
      EXPECT_EQ(block_hash({bytes.data(), n}, seed),
                by_definition({bytes.data(), n}, seed))
        << n;
}

TEST(BlockHash, DoesNotDependOnThreads) {
  const auto bytes = random_bytes(500'000);
  const auto expected = block_hash(bytes, 0);
  for (const int threads : {2, 3}) {
    use_threads(threads);
    EXPECT_EQ(block_hash(bytes, 0), expected);
  }
  use_threads(1);
}

TEST(BlockHash, ChangesWithEachBit) {
  auto bytes = random_bytes(300);
  std::set<std::uint64_t> seen{block_hash(bytes, 0)};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = std::byte(1 << bit % 8);
    bytes[bit / 8] ^= flip;
    EXPECT_TRUE(seen.insert(block_hash(bytes, 0)).second) << bit;
    bytes[bit / 8] ^= flip;
  }
}

/// Sign bits are the highest ones of their words, which a product alone does
/// not spread.
TEST(BlockHash, ChangesWithEachPairOfSigns) {
  std::vector<std::byte> bytes(4096);
  std::set<std::uint64_t> seen;
  constexpr auto sign = std::byte{0x80};
  for (std::size_t a = 3; a < bytes.size(); a += 64)
    for (std::size_t b = a + 64; b < bytes.size(); b += 64) {
      bytes[a] ^= sign, bytes[b] ^= sign;
      EXPECT_TRUE(seen.insert(block_hash(bytes, 0)).second) << a << " " << b;
      bytes[a] ^= sign, bytes[b] ^= sign;
    }
}

TEST(BlockHash, ChangesIfBlocksAreSwapped) {
  auto bytes = random_bytes(65'536);
  const auto before = block_hash(bytes, 0);
  std::rotate(bytes.begin(), bytes.begin() + 32'768, bytes.end());
  EXPECT_NE(block_hash(bytes, 0), before);
}

} // namespace

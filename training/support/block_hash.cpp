#include "troupe/training/support/block_hash.hpp"

#include "troupe/tensors/op_threads.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace troupe {

namespace {

constexpr std::size_t block_bytes = 32 * 1024;
constexpr std::size_t lanes = 8;
constexpr std::size_t stripe_bytes = lanes * sizeof(std::uint64_t);
/// 2^64 divided by the golden ratio. It is odd, so each step of a lane is a
/// bijection.
constexpr std::uint64_t k = 0x9e37'79b9'7f4a'7c15;

std::uint64_t add_word(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * k;
  return hash ^ (hash >> 29);
}

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51'afd7'ed55'8ccd;
  x = (x ^ (x >> 33)) * 0xc4ce'b9fe'1a85'ec53;
  return x ^ (x >> 33);
}

void add_stripe(std::array<std::uint64_t, lanes>& hashes,
                const std::byte* bytes) {
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + lane * sizeof word, sizeof word);
    hashes[lane] = add_word(hashes[lane], word);
  }
}

std::uint64_t hash_of_block(const std::byte* bytes, std::size_t n,
                            std::uint64_t seed) {
  std::array<std::uint64_t, lanes> hashes{};
  for (std::size_t lane = 0; lane < lanes; ++lane)
    hashes[lane] = seed + lane;
  std::size_t at = 0;
  for (; at + stripe_bytes <= n; at += stripe_bytes)
    add_stripe(hashes, bytes + at);
  if (at < n) {
    std::array<std::byte, stripe_bytes> last{};
    std::memcpy(last.data(), bytes + at, n - at);
    add_stripe(hashes, last.data());
  }
  std::uint64_t out = n;
  for (const auto lane : hashes)
    out = add_word(out, lane);
  return mix(out);
}

} // namespace

std::uint64_t block_hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  const auto blocks = (bytes.size() + block_bytes - 1) / block_bytes;
  std::atomic<std::uint64_t> sum = mix(seed ^ bytes.size());
  for_ranges(blocks, bytes.size() / sizeof(float),
             [&](std::size_t first, std::size_t last) {
               std::uint64_t part = 0;
               for (auto b = first; b < last; ++b) {
                 const auto begin = b * block_bytes;
                 part += hash_of_block(
                   bytes.data() + begin,
                   std::min(block_bytes, bytes.size() - begin), mix(seed) + b);
               }
               sum.fetch_add(part, std::memory_order_relaxed);
             });
  return sum;
}

} // namespace troupe

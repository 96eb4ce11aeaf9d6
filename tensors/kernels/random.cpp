#include "troupe/tensors/kernels/isa_level.hpp"

namespace troupe::TROUPE_LEVEL {

/// Does one Philox round for each of `n` counters. Counter i consists of the
/// words c0[i] to c3[i].
static void round(std::uint32_t* __restrict c0, std::uint32_t* __restrict c1,
                  std::uint32_t* __restrict c2, std::uint32_t* __restrict c3,
                  std::uint32_t key0, std::uint32_t key1, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto a = std::uint64_t{0xD2511F53} * c0[i];
    const auto b = std::uint64_t{0xCD9E8D57} * c2[i];
    c0[i] = static_cast<std::uint32_t>(b >> 32) ^ c1[i] ^ key0;
    c1[i] = static_cast<std::uint32_t>(b);
    c2[i] = static_cast<std::uint32_t>(a >> 32) ^ c3[i] ^ key1;
    c3[i] = static_cast<std::uint32_t>(a);
  }
}

static void philox(std::uint32_t* out, std::uint64_t first, std::size_t blocks,
                   const std::uint32_t* high, const std::uint32_t* key) {
  constexpr std::size_t group = 64;
  std::uint32_t c0[group], c1[group], c2[group], c3[group];
  for (std::size_t done = 0; done < blocks; done += group) {
    const auto n = blocks - done < group ? blocks - done : group;
    for (std::size_t i = 0; i < group; ++i) {
      const auto number = first + done + i;
      c0[i] = static_cast<std::uint32_t>(number);
      c1[i] = static_cast<std::uint32_t>(number >> 32);
      c2[i] = high[0];
      c3[i] = high[1];
    }
    for (std::uint32_t r = 0; r < 10; ++r)
      round(c0, c1, c2, c3, key[0] + r * 0x9E3779B9, key[1] + r * 0xBB67AE85,
            group);
    for (std::size_t i = 0; i < n; ++i, out += 4) {
      out[0] = c0[i];
      out[1] = c1[i];
      out[2] = c2[i];
      out[3] = c3[i];
    }
  }
}

extern const random_kernels random;
const random_kernels random = {philox};

} // namespace troupe::TROUPE_LEVEL

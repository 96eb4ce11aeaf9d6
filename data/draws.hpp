#pragma once

#include <array>
#include <cstdint>

namespace troupe::data {

/// Philox 4x32-10: ten rounds on a counter of 128 bits under a key of 64.
/// @source Salmon et al., SC 2011.
constexpr std::array<std::uint32_t, 4>
philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const auto a = std::uint64_t{0xD2511F53} * counter[0];
    const auto b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {std::uint32_t(b >> 32) ^ counter[1] ^ key[0], std::uint32_t(b),
               std::uint32_t(a >> 32) ^ counter[3] ^ key[1], std::uint32_t(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

/// Random numbers in sequence, all determined by (seed, stream, part).
class draws {
public:
  draws(std::uint64_t seed, std::uint64_t stream, std::uint32_t part = 0)
    : key_{std::uint32_t(seed), std::uint32_t(seed >> 32)},
      counter_{0, std::uint32_t(stream), std::uint32_t(stream >> 32), part} {}

  std::uint32_t bits() {
    if (left_ == 0) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      left_ = 4;
    }
    return block_[--left_];
  }

  /// In [0, 1), a multiple of 2^-24.
  float unit() { return float(bits() >> 8) * 0x1p-24f; }

  float between(float low, float high) { return low + (high - low) * unit(); }

  /// In [0, end), each equally likely. @pre `end > 0`.
  /// @source Lemire, ACM TOMACS 29(1), 2019.
  std::uint32_t below(std::uint32_t end) {
    auto wide = std::uint64_t{bits()} * end;
    if (std::uint32_t(wide) < end)
      for (const auto least = -end % end; std::uint32_t(wide) < least;)
        wide = std::uint64_t{bits()} * end;
    return std::uint32_t(wide >> 32);
  }

private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned left_ = 0;
};

} // namespace troupe::data

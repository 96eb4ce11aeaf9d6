#pragma once

#include "troupe/tensors/context.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// Counter-based random numbers: word i of a stream is a function of the
// stream's key and i only. Therefore a repeated step draws the same numbers,
// and a range of an array can be filled separately. The bits depend on neither
// processor, compiler nor C library: all functions but +, -, *, / and sqrt are
// implemented here.

using philox_counter = std::array<std::uint32_t, 4>;
using philox_key = std::array<std::uint32_t, 2>;

/// The Philox4x32-10 generator.
/// @source Salmon, Moraes, Dror & Shaw, SC 2011.
philox_counter philox(philox_counter counter, philox_key key);

/// First values of `random_key::op` for random numbers that are not drawn by
/// ops. Each constant begins a range of its own; ops use lower numbers. The
/// initial values of parameter i have the number `draws_initial + i`.
inline constexpr std::uint32_t draws_initial = 0x8000'0000;
inline constexpr std::uint32_t draws_order = 0xC000'0000; ///< Shuffles.
inline constexpr std::uint32_t draws_data = 0xD000'0000;  ///< Generated data.

/// The stream of random 32-bit words of one key. Words are read in order or by
/// index.
class random_stream {
public:
  explicit random_stream(const random_key& key);

  /// Returns word `index`.
  std::uint32_t word(std::uint64_t index) const;

  /// Returns words 4i to 4i + 3.
  philox_counter block(std::uint64_t i) const;

  /// Writes blocks `first`, `first` + 1, ... to `out`. One call for many blocks
  /// is several times faster than a call per block.
  /// @pre `out.size()` is a multiple of 4.
  void blocks(std::uint64_t first, std::span<std::uint32_t> out) const;

  /// Returns the next word; the first one is word 0.
  std::uint32_t next();

  // Block i of the stream is `philox({i's lower word, i's upper word,
  // upper_counter()...}, key())`.
  philox_key key() const { return key_; }
  std::array<std::uint32_t, 2> upper_counter() const {
    return {high_[0], high_[1]};
  }

  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position);

  /// Returns a uniformly distributed multiple of 2^-24 in [0, 1). Reads one
  /// word.
  float uniform();

  /// Returns a uniformly distributed number in [low, high). Reads one word.
  /// @pre low < high, both finite.
  float uniform(float low, float high);

  /// Returns a normally distributed number with mean 0 and deviation 1. Reads
  /// one word.
  float normal();

  /// Returns a uniformly distributed integer in [0, n). Reads one word, rarely
  /// more.
  /// @pre n > 0.
  /// @source Lemire, ACM TOMACS 29(1), 2019.
  std::uint32_t below(std::uint32_t n);

private:
  philox_key key_;
  std::uint32_t high_[2]; ///< Upper half of every counter.
  std::uint64_t position_ = 0;
  /// The block that contains word `position_`. Not valid if `position_` is a
  /// multiple of 4: `next` then computes the block.
  philox_counter words_{};
};

/// Maps a word to a multiple of 2^-24 in [0, 1).
constexpr float unit_of(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// Returns the quantile of the standard normal distribution at (word + 1/2) /
/// 2^32. It is in [-6.34, 6.34].
/// @source Wichura, Algorithm AS 241, Applied Statistics 37(3), 1988.
float normal_of(std::uint32_t word);

/// Fills `out` with uniformly distributed numbers in [low, high). Element i is
/// computed from word `first + i` of the key's stream.
/// @pre low < high, both finite.
void fill_uniform(std::span<float> out, float low, float high,
                  const random_key& key, std::uint64_t first = 0);
/// Fills `out` with normally distributed numbers. Element i is computed from
/// word `first + i` of the key's stream.
void fill_normal(std::span<float> out, float mean, float deviation,
                 const random_key& key, std::uint64_t first = 0);

/// Sets each element of `out` to `value` with the given probability, else to 0:
/// a mask for dropout. Element i depends on word `first + i` of the stream.
/// @pre 0 <= probability <= 1.
void fill_bernoulli(std::span<float> out, double probability, float value,
                    const random_key& key, std::uint64_t first = 0);

/// Returns a uniformly distributed permutation of 0 to n - 1. At most 2^128 of
/// the n! permutations occur, because there are 2^128 streams.
/// @errors throws std::logic_error if n does not fit 32 bits.
/// @cost O(n)
std::vector<std::uint32_t> permutation(std::uint64_t n, const random_key& key);

} // namespace troupe

#pragma once

#include "troupe/tensors/context.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// Counter-based random numbers: word i of a stream is a function of the
// stream's key and i alone, so that whoever redoes a step draws the same, and a
// part of an array can be filled without the rest. The bits depend on neither
// processor, compiler nor C library: what is needed beyond +, -, *, / and sqrt
// is computed here.

using philox_counter = std::array<std::uint32_t, 4>;
using philox_key = std::array<std::uint32_t, 2>;

/// Philox4x32-10.
/// @source Salmon, Moraes, Dror & Shaw, SC 2011.
philox_counter philox(philox_counter counter, philox_key key);

/// Numbers for `random_key::op` of draws that no op makes: they share none with
/// an op's, nor with each other's.
inline constexpr std::uint32_t draws_initial = 0x8000'0000; ///< + parameter
inline constexpr std::uint32_t draws_order = 0xC000'0000;   ///< shuffles
inline constexpr std::uint32_t draws_data = 0xD000'0000;    ///< made-up data

/// The words that belong to one key, in order or by number.
class random_stream {
public:
  explicit random_stream(const random_key& key);

  /// Word `index`.
  std::uint32_t at(std::uint64_t index) const;

  /// Words 4i to 4i + 3.
  philox_counter block(std::uint64_t i) const;

  /// Blocks `first`, `first` + 1, ...: many at once are made several times
  /// faster than one by one. @pre `out.size()` is a multiple of 4.
  void blocks(std::uint64_t first, std::span<std::uint32_t> out) const;

  /// The next word; the first one is word 0.
  std::uint32_t next();

  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position);

  /// [0, 1), a multiple of 2^-24. Takes one word.
  float uniform();

  /// [low, high). Takes one word. @pre low < high, both finite.
  float uniform(float low, float high);

  /// Mean 0, deviation 1. Takes one word.
  float normal();

  /// [0, n), each equally likely. Takes a word, seldom more. @pre n > 0.
  /// @source Lemire, ACM TOMACS 29(1), 2019.
  std::uint32_t below(std::uint32_t n);

private:
  philox_key key_;
  std::uint32_t high_[2]; ///< Of every counter.
  std::uint64_t position_ = 0;
  philox_counter words_{}; ///< The block that holds `position_`, if any of it
                           ///< was read.
};

/// A word as a number in [0, 1), a multiple of 2^-24.
constexpr float unit_of(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// The quantile of the standard normal distribution at (word + 1/2) / 2^32:
/// from -6.3 to 6.3.
/// @source Wichura, Algorithm AS 241, Applied Statistics 37(3), 1988.
float normal_of(std::uint32_t word);

/// Fills `out` from words `first`, `first` + 1, ... of the key's stream.
/// @pre low < high, both finite.
void fill_uniform(std::span<float> out, float low, float high,
                  const random_key& key, std::uint64_t first = 0);
void fill_normal(std::span<float> out, float mean, float deviation,
                 const random_key& key, std::uint64_t first = 0);

/// Puts `value` where a word says so, with the probability given, and 0
/// elsewhere: a mask for dropout. @pre 0 <= probability <= 1.
void fill_bernoulli(std::span<float> out, double probability, float value,
                    const random_key& key, std::uint64_t first = 0);

/// The numbers 0 to n - 1 in an order of which all are equally likely (as far
/// as a key's 128 bits go).
/// @errors throws std::logic_error if n does not fit 32 bits.
/// @cost O(n)
std::vector<std::uint32_t> permutation(std::uint64_t n, const random_key& key);

} // namespace troupe

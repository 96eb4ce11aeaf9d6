#include "troupe/tensors/random.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/detail/exact_math.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

constexpr std::uint32_t low_half(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}

constexpr std::uint32_t high_half(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

/// Calls `put(i, w)` for i in [0, n), where w is word `first + i` of the
/// stream.
template <class F>
void each_word(const random_stream& stream, std::uint64_t first, std::size_t n,
               F put) {
  constexpr std::size_t capacity = 256;
  std::uint32_t words[capacity];
  for (std::size_t i = 0; i < n;) {
    const auto skip = (first + i) % 4;
    const auto count = std::min(n - i, capacity - skip);
    stream.blocks((first + i) / 4, {words, (skip + count + 3) / 4 * 4});
    for (std::size_t j = 0; j < count; ++j)
      put(i + j, words[skip + j]);
    i += count;
  }
}

/// c[0] + c[1] x + ... + c[7] x^7
double polynomial(const double (&c)[8], double x) {
  double sum = c[7];
  for (int i = 6; i >= 0; --i)
    sum = sum * x + c[i];
  return sum;
}

constexpr double middle_over[8] = {
  3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
  1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
  3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double middle_under[8] = {1.0,
                                    4.2313330701600911252e1,
                                    6.8718700749205790830e2,
                                    5.3941960214247511077e3,
                                    2.1213794301586595867e4,
                                    3.9307895800092710610e4,
                                    2.8729085735721942674e4,
                                    5.2264952788528545610e3};
constexpr double tail_over[8] = {
  1.42343711074968357734e0,  4.63033784615654529590e0,
  5.76949722146069140550e0,  3.64784832476320460504e0,
  1.27045825245236838258e0,  2.41780725177450611770e-1,
  2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double tail_under[8] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};

} // namespace

philox_counter philox(philox_counter c, philox_key key) {
  for (int round = 0; round < 10; ++round) {
    const auto a = std::uint64_t{0xD2511F53} * c[0];
    const auto b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {high_half(b) ^ c[1] ^ key[0], low_half(b),
         high_half(a) ^ c[3] ^ key[1], low_half(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

// A `random_key` has more than the 64 bits of a Philox key. Therefore one call
// of `philox` maps it to the Philox key of the stream and to the upper half of
// all counters of the stream.
random_stream::random_stream(const random_key& key) {
  const auto name =
    philox({low_half(key.step), high_half(key.step), key.replica, key.op},
           {low_half(key.seed), high_half(key.seed)});
  key_ = {name[0], name[1]};
  high_[0] = name[2];
  high_[1] = name[3];
}

philox_counter random_stream::block(std::uint64_t i) const {
  return philox({low_half(i), high_half(i), high_[0], high_[1]}, key_);
}

void random_stream::blocks(std::uint64_t first,
                           std::span<std::uint32_t> out) const {
  kernels().philox(out.data(), first, out.size() / 4, high_, key_.data());
}

std::uint32_t random_stream::word(std::uint64_t index) const {
  return block(index / 4)[index % 4];
}

std::uint32_t random_stream::next() {
  if (position_ % 4 == 0)
    words_ = block(position_ / 4);
  return words_[position_++ % 4];
}

void random_stream::seek(std::uint64_t position) {
  position_ = position;
  if (position % 4 != 0)
    words_ = block(position / 4);
}

float random_stream::uniform() {
  return unit_of(next());
}

float random_stream::uniform(float low, float high) {
  const auto x = low + unit_of(next()) * (high - low);
  return x < high ? x : std::nextafter(high, low);
}

float random_stream::normal() {
  return normal_of(next());
}

std::uint32_t random_stream::below(std::uint32_t n) {
  auto product = std::uint64_t{next()} * n;
  if (low_half(product) < n)
    for (const auto threshold = -n % n; low_half(product) < threshold;)
      product = std::uint64_t{next()} * n;
  return high_half(product);
}

float normal_of(std::uint32_t word) {
  const auto p = (static_cast<double>(word) + 0.5) * 0x1p-32;
  const auto q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const auto r = 0.180625 - q * q;
    return static_cast<float>(q * polynomial(middle_over, r)
                              / polynomial(middle_under, r));
  }
  const auto r = std::sqrt(-detail::log(q < 0 ? p : 1 - p)) - 1.6;
  const auto z = polynomial(tail_over, r) / polynomial(tail_under, r);
  return static_cast<float>(q < 0 ? -z : z);
}

void fill_uniform(std::span<float> out, float low, float high,
                  const random_key& key, std::uint64_t first) {
  const auto width = high - low;
  const auto last = std::nextafter(high, low);
  each_word(random_stream{key}, first, out.size(),
            [&](std::size_t i, std::uint32_t word) {
              const auto x = low + unit_of(word) * width;
              out[i] = x < high ? x : last;
            });
}

void fill_normal(std::span<float> out, float mean, float deviation,
                 const random_key& key, std::uint64_t first) {
  each_word(random_stream{key}, first, out.size(),
            [&](std::size_t i, std::uint32_t word) {
              out[i] = mean + deviation * normal_of(word);
            });
}

void fill_bernoulli(std::span<float> out, double probability, float value,
                    const random_key& key, std::uint64_t first) {
  const auto limit = static_cast<std::uint64_t>(probability * 0x1p32 + 0.5);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  each_word(random_stream{key}, first, out.size(),
            [&](std::size_t i, std::uint32_t word) {
              // A mask replaces a branch, which would be unpredictable.
              const auto mask = -static_cast<std::uint32_t>(word < limit);
              out[i] = std::bit_cast<float>(bits & mask);
            });
}

std::vector<std::uint32_t> permutation(std::uint64_t n, const random_key& key) {
  if (n > 0xFFFF'FFFF)
    throw std::logic_error("a permutation of " + std::to_string(n)
                           + " numbers; at most 2^32 - 1 are possible");
  std::vector<std::uint32_t> out(n);
  std::iota(out.begin(), out.end(), 0u);
  random_stream words{key};
  for (auto i = static_cast<std::uint32_t>(n); i > 1; --i)
    std::swap(out[i - 1], out[words.below(i)]);
  return out;
}

} // namespace troupe

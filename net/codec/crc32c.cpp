#include "troupe/net/codec/crc32c.hpp"

#include "troupe/net/base/little_endian.hpp"

#include <array>

namespace troupe::net {

namespace {

constexpr std::uint32_t polynomial = 0x82F63B78; // 0x1EDC6F41 reversed

using table = std::array<std::array<std::uint32_t, 256>, 8>;

/// Makes the lookup table. Row k holds, for each byte value, the CRC remainder
/// of that byte followed by k zero bytes.
constexpr table make_table() {
  table t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    auto x = i;
    for (int bit = 0; bit < 8; ++bit)
      x = x & 1 ? (x >> 1) ^ polynomial : x >> 1;
    t[0][i] = x;
  }
  for (std::size_t k = 1; k < t.size(); ++k)
    for (std::uint32_t i = 0; i < 256; ++i)
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}

constexpr table slices = make_table();

#if defined(__x86_64__)

/// Returns the product of two polynomials modulo `polynomial`. In each number
/// the highest bit is the coefficient of x^0, and the lowest bit that of x^31.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (auto bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit)
      sum ^= b;
    b = b & 1 ? (b >> 1) ^ polynomial : b >> 1;
  }
  return sum;
}

/// Returns the polynomial x to the power of 8 * `bytes`, modulo `polynomial`.
constexpr std::uint32_t power(std::size_t bytes) {
  auto result = 1u << 31, square = 1u << 23; // 1 and x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1)
      result = product(result, square);
    square = product(square, square);
  }
  return result;
}

/// Returns the value that the CRC register `crc` has after it has processed
/// `Zeros` zero bytes. With this value the caller can process a block of
/// `Zeros` arbitrary bytes in a second register that starts at 0. Because the
/// CRC is linear, the XOR of the returned value and the second register is the
/// value that `crc` would have after the block.
template <std::size_t Zeros>
std::uint32_t over_zeros(std::uint32_t crc) {
  static constexpr auto rows = [] {
    // This call is outside the loops, because clang limits the number of steps
    // in the evaluation of a constant expression.
    const auto zeros = power(Zeros);
    std::array<std::array<std::uint32_t, 256>, 4> t{};
    for (std::uint32_t k = 0; k < 4; ++k)
      for (std::uint32_t i = 0; i < 256; ++i)
        t[k][i] = product(i << (8 * k), zeros);
    return t;
  }();
  return rows[0][crc & 0xFF] ^ rows[1][(crc >> 8) & 0xFF]
         ^ rows[2][(crc >> 16) & 0xFF] ^ rows[3][crc >> 24];
}

/// Processes groups of three adjacent blocks of `Block` bytes, and removes them
/// from `bytes`. Each block has its own register, so that three CRC
/// instructions run in parallel: each takes three cycles, and one can start per
/// cycle.
template <std::size_t Block>
__attribute__((target("sse4.2"))) std::uint32_t
three_blocks(std::span<const std::byte>& bytes, std::uint32_t crc) {
  static_assert(Block % 8 == 0);
  for (; bytes.size() >= 3 * Block; bytes = bytes.subspan(3 * Block)) {
    const auto* data = bytes.data();
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < Block; i += 8) {
      a = __builtin_ia32_crc32di(a, load_le<std::uint64_t>(data + i));
      b = __builtin_ia32_crc32di(b, load_le<std::uint64_t>(data + Block + i));
      c =
        __builtin_ia32_crc32di(c, load_le<std::uint64_t>(data + 2 * Block + i));
    }
    crc = over_zeros<Block>(static_cast<std::uint32_t>(a))
          ^ static_cast<std::uint32_t>(b);
    crc = over_zeros<Block>(crc) ^ static_cast<std::uint32_t>(c);
  }
  return crc;
}

__attribute__((target("sse4.2"))) std::uint32_t
by_instruction(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint64_t x =
    three_blocks<256>(bytes, three_blocks<4096>(bytes, ~before));
  for (; bytes.size() >= 8; bytes = bytes.subspan(8))
    x = __builtin_ia32_crc32di(x, load_le<std::uint64_t>(bytes.data()));
  auto y = static_cast<std::uint32_t>(x);
  for (const auto b : bytes)
    y = __builtin_ia32_crc32qi(y, std::to_integer<unsigned char>(b));
  return ~y;
}

#endif

} // namespace

std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes,
                               std::uint32_t before) {
  auto crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const auto word = load_le<std::uint64_t>(bytes.data()) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i)
      crc ^= slices[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (const auto b : bytes)
    crc =
      (crc >> 8) ^ slices[0][(crc ^ std::to_integer<std::uint32_t>(b)) & 0xFF];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction)
    return by_instruction(bytes, before);
#endif
  return crc32c_by_tables(bytes, before);
}

} // namespace troupe::net

#include "troupe/net/crc32c.hpp"

#include "troupe/net/little_endian.hpp"

#include <array>

namespace troupe::net {

namespace {

using table = std::array<std::array<std::uint32_t, 256>, 8>;

/// Row k: what a byte becomes when k more bytes of zeros follow it.
constexpr table make_table() {
  table t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    auto x = i;
    for (int bit = 0; bit < 8; ++bit)
      x = x & 1 ? (x >> 1) ^ 0x82F63B78u : x >> 1; // the polynomial, reflected
    t[0][i] = x;
  }
  for (std::size_t k = 1; k < t.size(); ++k)
    for (std::uint32_t i = 0; i < 256; ++i)
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}

constexpr table slices = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t
by_instruction(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint64_t x = std::uint32_t(~before);
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
  auto x = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const auto word = load_le<std::uint64_t>(bytes.data()) ^ x;
    x = 0;
    for (std::size_t i = 0; i < 8; ++i)
      x ^= slices[7 - i][(word >> (8 * i)) & 0xFF];
  }
  for (const auto b : bytes)
    x = (x >> 8) ^ slices[0][(x ^ std::to_integer<std::uint32_t>(b)) & 0xFF];
  return ~x;
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

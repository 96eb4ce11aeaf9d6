#include "troupe/net/frame.hpp"

#include <array>
#include <cstring>
#include <string>

namespace troupe::net {

namespace {

// Offsets in a header; numbers are little-endian. Bytes 6 and 7 are zero.
constexpr std::size_t at_mark = 0, at_version = 2, at_kind = 3, at_what = 4,
                      at_zero = 6, at_length = 8, at_epoch = 12, at_tag = 20,
                      at_sum = 28;
constexpr std::uint16_t mark = 0x7254; // "Tr"

using table = std::array<std::array<std::uint32_t, 256>, 8>;

/// Eight bytes at a time: entry [k][b] is the sum of byte b and k zeros.
constexpr table make_table() {
  table out{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    auto sum = b;
    for (int bit = 0; bit < 8; ++bit)
      sum = sum >> 1 ^ (sum & 1 ? 0x82F63B78u : 0u);
    out[0][b] = sum;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      out[k][b] = out[k - 1][b] >> 8 ^ out[0][out[k - 1][b] & 255];
  return out;
}

constexpr table sums = make_table();

template <class T>
void put(std::byte* to, T x) {
  for (std::size_t i = 0; i < sizeof x; ++i)
    to[i] = static_cast<std::byte>(x >> (8 * i) & 255);
}

template <class T>
T get(const std::byte* from) {
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    x |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return static_cast<T>(x);
}

std::uint32_t checksum(std::span<const std::byte> whole) {
  return crc32c(whole.subspan(header_size), crc32c(whole.first(at_sum)));
}

} // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  auto sum = ~before;
  const auto* p = bytes.data();
  auto n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    const auto low = get<std::uint32_t>(p) ^ sum,
               high = get<std::uint32_t>(p + 4);
    sum = sums[7][low & 255] ^ sums[6][low >> 8 & 255]
          ^ sums[5][low >> 16 & 255] ^ sums[4][low >> 24] ^ sums[3][high & 255]
          ^ sums[2][high >> 8 & 255] ^ sums[1][high >> 16 & 255]
          ^ sums[0][high >> 24];
  }
  for (; n > 0; --n, ++p)
    sum = sum >> 8 ^ sums[0][(sum ^ std::to_integer<std::uint32_t>(*p)) & 255];
  return ~sum;
}

std::vector<std::byte> encode(const frame& x) {
  if (x.payload.size() > most_payload)
    throw std::logic_error("a payload of " + std::to_string(x.payload.size())
                           + " bytes; at most " + std::to_string(most_payload)
                           + " fit a frame");
  std::vector<std::byte> out(header_size + x.payload.size());
  auto* h = out.data();
  put(h + at_mark, mark);
  put(h + at_version, wire_version);
  put(h + at_kind, static_cast<std::uint8_t>(x.kind));
  put(h + at_what, x.what);
  put(h + at_length, static_cast<std::uint32_t>(x.payload.size()));
  put(h + at_epoch, x.epoch);
  put(h + at_tag, x.tag);
  if (!x.payload.empty())
    std::memcpy(h + header_size, x.payload.data(), x.payload.size());
  put(h + at_sum, checksum(out));
  return out;
}

std::size_t payload_size(std::span<const std::byte, header_size> header) {
  const auto* h = header.data();
  if (get<std::uint16_t>(h + at_mark) != mark)
    throw bad_frame("no frame begins here");
  if (const auto v = get<std::uint8_t>(h + at_version); v != wire_version)
    throw bad_frame("a frame of version " + std::to_string(v) + "; this is "
                    + std::to_string(wire_version));
  if (const auto k = get<std::uint8_t>(h + at_kind); k < 1 || k > 3)
    throw bad_frame("a frame of unknown kind " + std::to_string(k));
  if (get<std::uint16_t>(h + at_zero) != 0)
    throw bad_frame("a frame whose header is not zero where it should be");
  const auto length = get<std::uint32_t>(h + at_length);
  if (length > most_payload)
    throw bad_frame("a frame of " + std::to_string(length) + " bytes");
  return length;
}

frame decode(std::span<const std::byte> bytes) {
  if (bytes.size() < header_size)
    throw bad_frame("a header of " + std::to_string(bytes.size()) + " bytes");
  const auto length = payload_size(bytes.first<header_size>());
  if (length != bytes.size() - header_size)
    throw bad_frame("a frame that claims " + std::to_string(length)
                    + " bytes and has "
                    + std::to_string(bytes.size() - header_size));
  const auto* h = bytes.data();
  if (get<std::uint32_t>(h + at_sum) != checksum(bytes))
    throw bad_frame("a frame whose checksum does not agree");
  frame out;
  out.kind = static_cast<frame_kind>(get<std::uint8_t>(h + at_kind));
  out.what = get<std::uint16_t>(h + at_what);
  out.epoch = get<std::uint64_t>(h + at_epoch);
  out.tag = get<std::uint64_t>(h + at_tag);
  out.payload.assign(bytes.begin() + header_size, bytes.end());
  return out;
}

} // namespace troupe::net

#pragma once

#include "troupe/net/codec/encodable.hpp"

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <ostream>
#include <span>
#include <streambuf>
#include <vector>

namespace troupe::net {

/// Encodes values in Cereal's portable binary form. The first byte is 1, which
/// states that numbers are little-endian.
class writer {
public:
  writer() : stream_{&buffer_}, archive_{stream_, options::LittleEndian()} {}

  template <encodable... Ts>
  writer& operator()(const Ts&... xs) {
    if constexpr (sizeof...(xs) > 0)
      archive_(xs...);
    return *this;
  }

  /// Appends the bytes, without a length before them.
  void raw(std::span<const std::byte> bytes) {
    buffer_.bytes.insert(buffer_.bytes.end(), bytes.begin(), bytes.end());
  }

  /// Allocates memory for at least `more` further bytes.
  void reserve(std::size_t more) {
    buffer_.bytes.reserve(buffer_.bytes.size() + more);
  }

  std::vector<std::byte> bytes() && { return std::move(buffer_.bytes); }

private:
  using options = cereal::PortableBinaryOutputArchive::Options;

  struct buffer final : std::streambuf {
    std::vector<std::byte> bytes;

    std::streamsize xsputn(const char* from, std::streamsize count) override {
      const auto* begin = reinterpret_cast<const std::byte*>(from);
      bytes.insert(bytes.end(), begin, begin + count);
      return count;
    }
    int_type overflow(int_type x) override {
      bytes.push_back(static_cast<std::byte>(x));
      return x;
    }
  };

  buffer buffer_;
  std::ostream stream_;
  cereal::PortableBinaryOutputArchive archive_;
};

} // namespace troupe::net

#pragma once

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/encodable.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::net {

/// Encodes values in Cereal's portable binary form. The first byte is 1, which
/// states that numbers are little-endian.
class writer {
public:
  writer() : bytes_{std::byte{1}} {}

  template <encodable... Ts>
  writer& operator()(const Ts&... xs) {
    (put(xs), ...);
    return *this;
  }

  /// Appends the bytes, without a length before them.
  void raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  /// Allocates memory for at least `more` further bytes.
  void reserve(std::size_t more) { bytes_.reserve(bytes_.size() + more); }

  std::vector<std::byte> bytes() && { return std::move(bytes_); }

private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>)
      put_number(static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (std::is_arithmetic_v<T>)
      put_number(value);
    else
      std::apply([this](const auto&... xs) { (put(xs), ...); },
                 const_cast<T&>(value).fields());
  }

  template <class T>
  void put_number(T value) {
    std::byte bytes[sizeof value];
    store_le(bytes, value);
    raw(bytes);
  }

  template <class T>
  void put(const std::vector<T>& xs) {
    put_number(std::uint64_t{xs.size()});
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::byte>)
      raw(std::as_bytes(std::span{xs}));
    else
      for (const auto& x : xs)
        put(x);
  }

  void put(const std::string& text) {
    put_number(std::uint64_t{text.size()});
    raw(std::as_bytes(std::span{text}));
  }

  std::vector<std::byte> bytes_;
};

} // namespace troupe::net

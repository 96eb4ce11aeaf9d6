#pragma once

#include "troupe/net/codec/encodable.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace troupe::net {

/// Encodes values in Cereal's portable binary form. The first byte is 1, which
/// states that numbers are little-endian. Only the source includes Cereal,
/// because its headers are slow to compile.
class writer {
public:
  writer();
  ~writer();
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;

  template <encodable... Ts>
  writer& operator()(const Ts&... xs) {
    (put(xs), ...);
    return *this;
  }

  /// Appends the bytes, without a length before them.
  void raw(std::span<const std::byte> bytes);

  /// Allocates memory for at least `more` further bytes.
  void reserve(std::size_t more);

  std::vector<std::byte> bytes() &&;

private:
  struct output;

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>)
      put(static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (std::is_arithmetic_v<T>)
      put_numbers<sizeof(T)>(&value, 1);
    else
      std::apply([this](const auto&... xs) { (put(xs), ...); },
                 const_cast<T&>(value).fields());
  }

  template <class T>
  void put(const std::vector<T>& xs) {
    put(std::uint64_t{xs.size()});
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::byte>)
      put_numbers<sizeof(T)>(xs.data(), xs.size());
    else
      for (const auto& x : xs)
        put(x);
  }

  template <class... Ts>
  void put(const std::variant<Ts...>& one) {
    put(static_cast<std::int32_t>(one.index()));
    std::visit([this](const auto& x) { put(x); }, one);
  }

  void put(const std::string& text) {
    put(std::uint64_t{text.size()});
    put_numbers<1>(text.data(), text.size());
  }

  /// Appends numbers of `Size` bytes, which is 1, 2, 4 or 8.
  template <std::size_t Size>
  void put_numbers(const void* numbers, std::size_t count);

  std::unique_ptr<output> output_;
};

} // namespace troupe::net

#pragma once

#include "troupe/strategies/fields.hpp"
#include "troupe/tensors/tensor.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// Encodes what the functions of a step return, for the other processes of the
// job.

namespace troupe::detail {

static_assert(std::endian::native == std::endian::little,
              "numbers are encoded as they are in memory");

template <class T>
concept plain_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class T>
concept tuple_like = requires {
  typename std::tuple_size<T>::type;
};

template <class T>
concept growing_sequence = requires(T& xs, const T& ys) {
  typename T::value_type;
  xs.clear();
  xs.push_back(std::declval<typename T::value_type>());
  ys.size();
  ys.begin();
  ys.end();
};

template <class T>
struct is_result : std::false_type {};

/// A type whose values other processes can get: a number, enumeration, string
/// or tensor, or a vector, array, pair or tuple of such values. A struct can be
/// sent if it lists such `fields` (strategies/fields.hpp).
template <class T>
concept encodable_result = is_result<std::remove_cvref_t<T>>::value;

template <plain_number T>
struct is_result<T> : std::true_type {};
template <>
struct is_result<tensor> : std::true_type {};
template <growing_sequence T>
struct is_result<T>
  : std::bool_constant<
      std::default_initializable<
        typename T::
          value_type> && is_result<std::remove_cvref_t<typename T::value_type>>::value> {
};
template <class Tuple>
struct are_results : std::false_type {};
template <class... Ts>
struct are_results<std::tuple<Ts...>>
  : std::conjunction<is_result<std::remove_cvref_t<Ts>>...> {};
template <tuple_like T>
struct is_result<T> : are_results<decltype(std::tuple_cat(std::declval<T>()))> {
};
template <has_fields T>
struct is_result<T>
  : std::bool_constant<
      std::default_initializable<
        T> && are_results<decltype(std::declval<T&>().fields())>::value> {};

/// Appends values to a text of bounded size.
class result_writer {
public:
  explicit result_writer(std::size_t max_bytes) : max_bytes_{max_bytes} {}

  template <encodable_result T>
  void put(const T& x) {
    if constexpr (plain_number<T>) {
      bytes(&x, sizeof x);
    } else if constexpr (std::same_as<T, tensor>) {
      put_tensor(x);
    } else if constexpr (std::same_as<T, std::string>) {
      put(std::uint64_t{x.size()});
      bytes(x.data(), x.size());
    } else if constexpr (growing_sequence<T>) {
      put_sequence(x);
    } else if constexpr (tuple_like<T>) {
      std::apply([this](const auto&... xs) { (put(xs), ...); }, x);
    } else {
      std::apply([this](const auto&... xs) { (put(xs), ...); },
                 const_cast<T&>(x).fields()); // it only lists them
    }
  }

  /// True if the values did not fit. Then the text is not complete.
  bool is_too_large() const { return is_too_large_; }
  std::string text() && { return std::move(text_); }

private:
  template <class T>
  void put_sequence(const T& xs) {
    using element = typename T::value_type;
    put(std::uint64_t{xs.size()});
    if constexpr (plain_number<element> && std::ranges::contiguous_range<T>) {
      bytes(std::ranges::data(xs), xs.size() * sizeof(element));
    } else {
      for (const element& one : xs)
        if (!is_too_large_)
          put(one);
    }
  }

  void put_tensor(const tensor& x) {
    put(bool(x));
    if (!x)
      return;
    put(x.type());
    put(static_cast<std::uint8_t>(x.dims().rank()));
    for (const auto extent : x.dims())
      put(extent);
    const auto read = x.to({});
    bytes(read.raw(), read.bytes());
  }

  void bytes(const void* from, std::size_t count) {
    is_too_large_ |= count > max_bytes_ - text_.size();
    if (!is_too_large_)
      text_.append(static_cast<const char*>(from), count);
  }

  const std::size_t max_bytes_;
  std::string text_;
  bool is_too_large_ = false;
};

/// Reads what a `result_writer` has written, and checks all sizes.
class result_reader {
public:
  explicit result_reader(std::string_view text) : rest_{text} {}

  /// @returns false if the text is malformed.
  template <encodable_result T>
  bool get(T& x) {
    if constexpr (std::same_as<T, bool>) {
      std::uint8_t byte = 0;
      const bool is_valid = get(byte) && byte <= 1;
      x = byte == 1;
      return is_valid;
    } else if constexpr (plain_number<T>) {
      return bytes(&x, sizeof x);
    } else if constexpr (std::same_as<T, tensor>) {
      return get_tensor(x);
    } else if constexpr (std::same_as<T, std::string>) {
      std::uint64_t count = 0;
      if (!get(count) || count > rest_.size())
        return false;
      x.assign(rest_.substr(0, count));
      rest_.remove_prefix(count);
      return true;
    } else if constexpr (growing_sequence<T>) {
      return get_sequence(x);
    } else if constexpr (tuple_like<T>) {
      return std::apply([this](auto&... xs) { return (get(xs) && ...); }, x);
    } else {
      return std::apply([this](auto&... xs) { return (get(xs) && ...); },
                        x.fields());
    }
  }

  bool is_at_end() const { return rest_.empty(); }

private:
  template <class T>
  bool get_sequence(T& xs) {
    xs.clear();
    std::uint64_t count = 0;
    if (!get(count))
      return false;
    for (; count > 0; --count) {
      const auto before = rest_.size();
      typename T::value_type one{};
      // An element without bytes could be repeated without end.
      if (!get(one) || rest_.size() == before)
        return false;
      xs.push_back(std::move(one));
    }
    return true;
  }

  bool get_tensor(tensor& x);

  bool bytes(void* out, std::size_t count) {
    if (count > rest_.size())
      return false;
    std::memcpy(out, rest_.data(), count);
    rest_.remove_prefix(count);
    return true;
  }

  std::string_view rest_;
};

} // namespace troupe::detail

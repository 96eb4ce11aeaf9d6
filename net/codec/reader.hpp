#pragma once

#include "troupe/net/base/little_endian.hpp"
#include "troupe/net/codec/decode_error.hpp"
#include "troupe/net/codec/encodable.hpp"
#include "troupe/net/codec/type_names.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace troupe::net {

/// Decodes the output of a `writer` and validates it. After the first error it
/// reads nothing more. Cereal's own archive would allocate any length that the
/// bytes claim, and accept any number as an enumerator.
class reader {
public:
  /// @pre the bytes outlive the reader.
  explicit reader(std::span<const std::byte> bytes);

  template <encodable... Ts>
  reader& operator()(Ts&... xs) {
    (get(xs), ...);
    return *this;
  }

  /// Returns the next `count` bytes. If fewer are left, it sets an error and
  /// returns an empty span.
  /// @param kind name of the value in the error, such as "text".
  std::span<const std::byte> raw(std::uint64_t count, const char* kind);

  void fail(std::string reason);
  bool failed() const { return error_.has_value(); }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  /// Sets an error if bytes are left, and returns the first error of this
  /// reader.
  std::optional<decode_error> finish();

private:
  /// True if every bit pattern is a valid value of the type.
  template <class T>
  static constexpr bool
    is_number = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
                || std::is_same_v<T, std::byte>;

  /// Reads the length of a sequence whose elements take at least `min_bytes`
  /// bytes each. If fewer bytes are left than that length requires, it sets an
  /// error and returns 0.
  std::size_t count(std::size_t min_bytes, const char* kind);

  template <class T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>)
      get_bool(value);
    else if constexpr (is_number<T>)
      get_number(value);
    else if constexpr (std::is_enum_v<T>)
      get_enumerator(value);
    else
      std::apply([this](auto&... xs) { (get(xs), ...); }, value.fields());
  }

  template <class T>
  void get_number(T& value) {
    if (const auto b = raw(sizeof value, "number"); !b.empty())
      value = load_le<T>(b.data());
  }

  template <class E>
  void get_enumerator(E& value) {
    std::underlying_type_t<E> number{};
    get_number(number);
    if (failed())
      return;
    if (is_enumerator<E>(number))
      value = static_cast<E>(number);
    else
      fail_before(sizeof number, std::to_string(number) + " is not a value of "
                                   + std::string{type_name<E>()});
  }

  template <class T>
  void get(std::vector<T>& xs) {
    xs.clear();
    if constexpr (is_number<T>) {
      const auto n = count(sizeof(T), "list");
      const auto from = raw(n * sizeof(T), "list");
      xs.resize(failed() ? 0 : n);
      if (!from.empty() && !failed())
        std::memcpy(xs.data(), from.data(), from.size());
    } else {
      for (auto n = count(1, "list"); n > 0 && !failed(); --n) {
        const auto before = offset_;
        get(xs.emplace_back());
        // `count` allows at most one element per unread byte. Elements that
        // read no bytes would leave these bytes unread. Then the sender could
        // use them again, to claim many elements in a further list.
        if (offset_ == before)
          fail("an element of a list has no bytes");
      }
    }
  }

  template <class... Ts>
  void get(std::variant<Ts...>& one) {
    std::int32_t index = 0;
    get_number(index);
    if (failed())
      return;
    if (index < 0 || index >= std::int32_t{sizeof...(Ts)})
      return fail_before(sizeof index, std::to_string(index) + " is none of "
                                         + std::to_string(sizeof...(Ts))
                                         + " alternatives");
    std::int32_t i = 0;
    ((i++ == index ? get(one.template emplace<Ts>()) : void()), ...);
  }

  void get(std::string& value);
  void get_bool(bool& value);
  void fail_before(std::size_t bytes, std::string reason);

  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::optional<decode_error> error_;
};

} // namespace troupe::net

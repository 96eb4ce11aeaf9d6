#pragma once

#include <cereal/archives/portable_binary.hpp>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// Control structs as bytes: Cereal's portable binary form of what a struct's
// `fields()` lists. Texts and lists carry their length, which is checked
// against the bytes that are there before anything is allocated.

namespace troupe::net {

/// Bytes that are not what was asked for.
struct bad_message : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::uint32_t longest_text = 64 * 1024;
inline constexpr std::uint32_t longest_list = 64 * 1024;

class writer {
public:
  writer() : stream_{&buffer_}, to_{stream_} {}

  template <class T>
  void put(const T& x) {
    if constexpr (std::is_enum_v<T>)
      to_(static_cast<std::underlying_type_t<T>>(x));
    else if constexpr (std::is_same_v<T, bool>)
      to_(static_cast<std::uint8_t>(x));
    else if constexpr (std::is_arithmetic_v<T>)
      to_(x);
    else // fields() lists references, none of which is written to here
      std::apply([this](const auto&... xs) { (put(xs), ...); },
                 const_cast<T&>(x).fields());
  }
  void put(const std::string& x);
  template <class T>
  void put(const std::vector<T>& x) {
    put(length_of(x.size(), longest_list));
    for (const auto& each : x)
      put(each);
  }

  const std::vector<std::byte>& bytes() const { return buffer_.bytes; }
  std::vector<std::byte> take() { return std::move(buffer_.bytes); }

private:
  /// @errors throws std::logic_error beyond the limit.
  static std::uint32_t length_of(std::size_t n, std::uint32_t limit);

  struct appender : std::streambuf {
    std::vector<std::byte> bytes;
    std::streamsize xsputn(const char* from, std::streamsize n) override;
    int_type overflow(int_type c) override;
  };
  appender buffer_;
  std::ostream stream_;
  cereal::PortableBinaryOutputArchive to_;
};

class reader {
public:
  /// @errors throws `bad_message`, as all of its members do.
  explicit reader(std::span<const std::byte> from);

  template <class T>
  void get(T& x) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      get(number);
      x = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t number = 0;
      get(number);
      if (number > 1)
        throw bad_message("a truth value of " + std::to_string(number));
      x = number == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      need(sizeof x);
      (*from_)(x);
    } else {
      std::apply([this](auto&... xs) { (get(xs), ...); }, x.fields());
    }
  }
  void get(std::string& x);
  template <class T>
  void get(std::vector<T>& x) {
    std::uint32_t n = 0;
    get(n);
    if (n > longest_list)
      throw bad_message("a list of " + std::to_string(n) + " entries");
    need(n); // every entry takes a byte at least
    x.resize(n);
    for (auto& each : x)
      get(each);
  }

  std::size_t left() const { return buffer_.left(); }
  /// @errors throws if anything is left.
  void end() const;

private:
  void need(std::size_t bytes) const;

  struct window : std::streambuf {
    explicit window(std::span<const std::byte> from);
    std::size_t left() const {
      return static_cast<std::size_t>(egptr() - gptr());
    }
  };
  window buffer_;
  std::istream stream_;
  std::unique_ptr<cereal::PortableBinaryInputArchive> from_;
};

template <class T>
std::vector<std::byte> encode_struct(const T& x) {
  writer to;
  to.put(x);
  return to.take();
}

/// @errors throws `bad_message`: cut short, or longer than it should be.
template <class T>
T decode_struct(std::span<const std::byte> bytes) {
  reader from{bytes};
  T out;
  from.get(out);
  from.end();
  return out;
}

} // namespace troupe::net

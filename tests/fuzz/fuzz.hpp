#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

// Helpers of fuzz targets. A target is a file `<target>_fuzz.cpp` that defines
// `try_one` and `seeds`. libFuzzer runs it (scripts/fuzz.sh), and so does a
// program that replays its corpus (the tests `fuzz.replay.<target>`).

namespace troupe::fuzz {

using view = std::span<const std::byte>;
using bytes = std::vector<std::byte>;

/// Tries one input. Aborts the process if a property does not hold.
void try_one(view input);

/// Returns the initial inputs, from which the fuzzer derives others.
std::vector<bytes> seeds();

/// Aborts if a property that must hold for every input does not hold.
inline void require(bool holds, const char* property) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz: property violated: %s\n", property);
  std::abort();
}

/// Returns the number of allocated bytes that are not freed.
std::size_t live_bytes();
/// Returns the maximum of `live_bytes` since the last call of `forget_peak`.
std::size_t peak_bytes();
void forget_peak();

/// Runs `fn`. Returns the maximum of `live_bytes` during the run, minus its
/// value before the run.
template <class F>
std::size_t memory_of(F&& fn) {
  forget_peak();
  const auto before = live_bytes();
  fn();
  return peak_bytes() - before;
}

/// Reads an input from its front as a sequence of choices. When the input is
/// used up, all choices are zero.
class choices {
public:
  explicit choices(view from) : left_{from} {}

  bool any() const { return !left_.empty(); }

  template <class T>
  T number() {
    static_assert(std::is_unsigned_v<T>);
    T x = 0;
    const auto from = take(sizeof x);
    if (!from.empty())
      std::memcpy(&x, from.data(), from.size());
    return x;
  }
  /// Returns a number in [0, n). It takes one byte if n is at most 256, else
  /// two. @pre n is in [1, 65536].
  std::size_t below(std::size_t n) {
    return (n <= 256 ? number<std::uint8_t>() : number<std::uint16_t>()) % n;
  }
  bool flip() { return below(2) == 1; }

  /// Takes `count` bytes of the input, or fewer if fewer are left.
  view take(std::size_t count) {
    const auto some = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(some.size());
    return some;
  }
  view rest() { return take(left_.size()); }

private:
  view left_;
};

inline void append(bytes& to, view more) {
  to.insert(to.end(), more.begin(), more.end());
}

template <class... Bytes>
bytes joined(std::initializer_list<int> first, const Bytes&... more) {
  bytes x;
  for (const auto b : first)
    x.push_back(static_cast<std::byte>(b));
  (append(x, view{more}), ...);
  return x;
}

inline bytes of_text(std::string_view x) {
  bytes out;
  append(out, std::as_bytes(std::span{x}));
  return out;
}

} // namespace troupe::fuzz

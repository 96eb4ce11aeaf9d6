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

// What a fuzz target is made of: a file `<target>_fuzz.cpp` that defines
// `try_one` and `seeds`. libFuzzer drives it (scripts/fuzz.sh), or a plain
// program that replays its corpus (the tests `fuzz.replay.<target>`).

namespace troupe::fuzz {

using view = std::span<const std::byte>;
using bytes = std::vector<std::byte>;

/// Tries one input on the decoder. What must not happen, aborts.
void try_one(view input);

/// Inputs to begin with: valid ones, one of each kind.
std::vector<bytes> seeds();

/// A property that holds whatever the input is.
inline void require(bool holds, const char* property) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz: this does not hold: %s\n", property);
  std::abort();
}

/// Memory that `operator new` has given out and not taken back.
std::size_t live_bytes();
/// The most that it was since `forget_peak`.
std::size_t peak_bytes();
void forget_peak();

/// @returns the most memory that `fn` had at once, beyond what there was.
template <class F>
std::size_t memory_of(F&& fn) {
  forget_peak();
  const auto before = live_bytes();
  fn();
  return peak_bytes() - before;
}

/// An input as a sequence of choices, taken off its front; zeros once it ends.
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
  /// In [0, n).
  std::size_t below(std::size_t n) { return number<std::uint8_t>() % n; }
  bool flip() { return below(2) == 1; }

  /// At most so many.
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

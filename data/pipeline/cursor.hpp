#pragma once

#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <compare>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

namespace troupe {

/// Inputs and the labels that belong to them: one example ([...] and a scalar),
/// or n of them side by side ([n, ...] and [n] int32). Read only: the elements
/// may be the dataset's own.
struct batch {
  tensor inputs;
  tensor labels;
  /// Rows of the global batch that these are a part of, on whatever worker the
  /// others are; of a batch that was not distributed over a strategy's
  /// replicas, its own. Zero: a single example, or not made by a dataset.
  std::int64_t global_rows = 0;
};

namespace data {

class stage;
class read_ahead;

/// Where a cursor stands: the next element, and the pass over the data that it
/// belongs to. Two numbers say it all, whatever the chain: element and pass
/// determine what is read.
struct position {
  std::uint64_t pass = 0;
  std::uint64_t index = 0;

  friend auto operator<=>(const position&, const position&) = default;
};

/// Reads one pass of a dataset in order. For one thread at a time. Destroying
/// it ends its reading thread after the call of `map`'s function that it is
/// busy with, or, if that takes longer than 1 s, leaves it behind to end by
/// itself.
class cursor {
public:
  /// `dataset::iterate` makes cursors.
  cursor(std::shared_ptr<const stage> over, const position& from,
         std::size_t ahead, std::chrono::milliseconds patience);
  cursor(cursor&&) noexcept;
  cursor& operator=(cursor&&) noexcept;
  ~cursor();

  /// @returns none at the end of the pass.
  /// @errors throws what reading the element threw, here also if another thread
  ///         read it; the position stays, and the next call tries again. Throws
  ///         std::runtime_error when patience ends.
  std::optional<batch> next();

  /// Where `next` reads next; what was read ahead does not count.
  position save() const { return at_; }

  /// Goes on from a saved position: the elements that follow are those that
  /// would have followed there. @cost none, nothing is read again.
  /// @errors throws std::invalid_argument for a position beyond the end.
  void restore(const position& to);

  class iterator;
  iterator begin();
  std::default_sentinel_t end() { return {}; }

private:
  std::shared_ptr<const stage> over_;
  position at_;
  std::size_t count_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<read_ahead> ahead_;
};

/// For a range-for over what is left of the pass.
class cursor::iterator {
public:
  using value_type = batch;
  using difference_type = std::ptrdiff_t;

  explicit iterator(cursor& of) : of_{&of}, now_{of.next()} {}
  const batch& operator*() const { return *now_; }
  iterator& operator++() {
    now_ = of_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !now_; }

private:
  cursor* of_;
  std::optional<batch> now_;
};

inline cursor::iterator cursor::begin() {
  return iterator{*this};
}

} // namespace data
} // namespace troupe

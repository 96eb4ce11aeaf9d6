#pragma once

#include "troupe/data/pipeline/batch.hpp"

#include <chrono>
#include <compare>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>

namespace troupe {

namespace data {

class stage;
class prefetcher;

/// Position of a cursor: the epoch, and the index of the next element in that
/// epoch. For every chain of stages these two numbers alone determine which
/// element is read.
struct position {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;

  friend auto operator<=>(const position&, const position&) = default;
};

/// Reads the elements of one epoch of a dataset in order. Not thread-safe. The
/// destructor stops the prefetching thread and waits until its current call of
/// a `map` function returns. If that takes longer than 1 s, the thread is
/// detached.
class cursor {
public:
  /// Users call `dataset::iterate` instead, which calls this constructor.
  /// @param element_timeout Timeout of `next` while it waits for a prefetched
  ///        element.
  cursor(std::shared_ptr<const stage> source, const position& start,
         std::size_t prefetch_count, std::chrono::milliseconds element_timeout);
  cursor(cursor&&) noexcept;
  cursor& operator=(cursor&&) noexcept;
  ~cursor();

  /// Returns the next element. None: the epoch has ended.
  /// @errors rethrows any exception that was thrown while the element was read,
  ///         also on the prefetching thread. After an exception the position is
  ///         unchanged, and the next call reads the same element. Throws
  ///         std::runtime_error after the element timeout.
  std::optional<batch> next();

  /// Returns the next element, and waits for it without a timeout. None: the
  /// epoch has ended.
  /// @errors as the other, but for the timeout. Throws `read_cancelled` soon
  ///         after a stop is requested.
  std::optional<batch> next(const std::stop_token& stop);

  /// Returns the position of the element that the next call of `next` returns.
  /// Prefetched elements do not count.
  position save() const { return position_; }

  /// Moves to a saved position: `next` returns the elements from there on.
  /// @cost no element before the position is read; prefetched elements are
  ///       discarded.
  /// @errors throws std::invalid_argument for a position beyond the end.
  void restore(const position& saved);

  class iterator;
  iterator begin();
  std::default_sentinel_t end() { return {}; }

private:
  /// @param stop null: the element timeout applies.
  std::optional<batch> read_next(const std::stop_token* stop);

  std::shared_ptr<const stage> stage_;
  position position_;
  std::size_t prefetch_count_;
  std::chrono::milliseconds element_timeout_;
  std::unique_ptr<prefetcher> prefetcher_;
};

/// Iterates over the remaining elements of the epoch.
class cursor::iterator {
public:
  using value_type = batch;
  using difference_type = std::ptrdiff_t;

  explicit iterator(cursor& source)
    : cursor_{&source}, element_{source.next()} {}
  const batch& operator*() const { return *element_; }
  iterator& operator++() {
    element_ = cursor_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !element_; }

private:
  cursor* cursor_;
  std::optional<batch> element_;
};

inline cursor::iterator cursor::begin() {
  return iterator{*this};
}

} // namespace data
} // namespace troupe

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>

namespace troupe::parameter_server {

/// Some rows of a table by number. Each has the same number of floats, and a
/// few tags, which are integers.
///
/// The rows are in buckets by a hash of their number. A bucket is one block of
/// memory without gaps. When the buckets have `mean_rows` rows on average, one
/// of them is divided, so no insertion moves more than the rows of two buckets,
/// and no memory is reserved for later rows.
/// @source Litwin, Linear hashing, VLDB 1980.
/// @cost memory of a row: its floats, 4 bytes for its number, 4 for each tag,
///       and about 1 for its share of a bucket. A search reads the numbers of a
///       bucket; an insertion and a removal copy the rows of a bucket.
class row_map {
public:
  /// Average number of rows of a bucket.
  static constexpr std::size_t mean_rows = 32;

  /// @param floats of a row. @param tags of a row.
  explicit row_map(std::size_t floats, std::size_t tags = 0);
  row_map(const row_map& other); ///< Copies all rows.
  row_map& operator=(const row_map& other);
  row_map(row_map&&) = default;
  row_map& operator=(row_map&&) = default;

  /// A row of the map, until the next row is inserted or removed.
  class entry {
  public:
    entry() = default; ///< No row.
    explicit operator bool() const { return number_; }

    std::uint32_t number() const { return *number_; }
    std::span<float> values() const { return {values_, map_->floats_}; }
    std::uint32_t& tag(std::size_t i) const { return tags_[i]; }

  private:
    friend row_map;
    const row_map* map_ = nullptr;
    std::uint32_t* number_ = nullptr; ///< Null: no row.
    float* values_ = nullptr;
    std::uint32_t* tags_ = nullptr;
  };

  std::size_t floats() const { return floats_; } ///< Of a row.
  std::size_t tags() const { return tags_; }     ///< Of a row.
  std::uint64_t size() const { return size_; }   ///< Number of rows.
  std::size_t buckets() const { return buckets_.size(); }
  /// Bytes of all memory, with those that the allocator needs.
  std::uint64_t bytes() const;
  /// Returns the bytes by which `bytes` grows with each row, about.
  std::uint64_t row_bytes() const;

  /// Returns a row. No row: the map lacks it.
  entry find(std::uint32_t number) const;
  /// Calls `fn(i)` for each position of a list of rows, in its order, and
  /// prefetches the rows that follow. `fn` may change the map, and searches the
  /// rows by itself.
  template <class F>
  void for_each_prefetched(std::span<const std::int64_t> numbers,
                           const F& fn) const;
  /// Inserts a row, whose floats and tags the caller sets.
  /// @errors throws std::logic_error if the map has the row.
  entry insert(std::uint32_t number);
  /// Removes a row. No effect if the map lacks it.
  void erase(std::uint32_t number);
  /// Removes the rows of one bucket for which `fn` returns true; it is called
  /// once or twice for each row.
  void erase_if(std::size_t bucket, const std::function<bool(entry)>& fn);
  /// Calls `fn` for each row, in no particular order.
  void for_each(const std::function<void(entry)>& fn) const;

private:
  /// The floats of all rows, then their numbers, then their tags.
  struct bucket {
    std::unique_ptr<std::byte[]> memory;
    std::uint32_t rows = 0;
  };

  std::size_t bytes_of(std::size_t rows) const {
    return rows * (floats_ + 1 + tags_) * sizeof(float);
  }
  std::size_t bucket_of(std::uint32_t number) const;
  entry at(const bucket& of, std::size_t i) const;
  void prefetch_bucket(std::uint32_t number) const;
  void prefetch_numbers(std::uint32_t number) const;
  void prefetch_row(std::uint32_t number) const;
  bucket make(std::size_t rows);
  void copy(const entry& from, const entry& to) const;
  /// Keeps the rows of a bucket for which `fn` returns true.
  template <class F>
  void keep_if(bucket& of, const F& fn);
  void divide_a_bucket();

  std::size_t floats_, tags_;
  std::uint64_t size_ = 0;
  std::uint64_t block_bytes_ = 0; ///< Of the blocks of all buckets.
  std::deque<bucket> buckets_;
  unsigned level_ = 0;   ///< There are 2^level + next buckets.
  std::size_t next_ = 0; ///< The bucket that is divided next.
};

template <class F>
void row_map::for_each_prefetched(std::span<const std::int64_t> numbers,
                                  const F& fn) const {
  // A search waits three times for memory: for the bucket, for its numbers, and
  // for the row. Each of these is prefetched `distance` positions before what
  // follows it.
  constexpr std::size_t distance = 8;
  const auto size = numbers.size();
  const auto number = [&](std::size_t i) {
    return static_cast<std::uint32_t>(numbers[i]);
  };
  for (std::size_t i = 0; i < size + 3 * distance; ++i) {
    if (i < size)
      prefetch_bucket(number(i));
    if (i >= distance && i - distance < size)
      prefetch_numbers(number(i - distance));
    if (i >= 2 * distance && i - 2 * distance < size)
      prefetch_row(number(i - 2 * distance));
    if (i >= 3 * distance)
      fn(i - 3 * distance);
  }
}

} // namespace troupe::parameter_server

#include "troupe/strategies/parameter_server/row_map.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

namespace {

/// What the allocator needs for a block: its header, and half of the unit to
/// which it rounds.
constexpr std::uint64_t allocator_bytes = 16;

constexpr std::size_t cache_line_bytes = 64;

/// Begins to load some bytes into the cache.
void prefetch(const void* first, std::size_t bytes) {
  const auto* const from = static_cast<const std::byte*>(first);
  for (std::size_t i = 0; i < bytes; i += cache_line_bytes)
    __builtin_prefetch(from + i);
  if (bytes > 0)
    __builtin_prefetch(from + bytes - 1);
}

/// @source the finalizer of MurmurHash3
std::uint32_t hash(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85eb'ca6bu;
  x ^= x >> 13;
  x *= 0xc2b2'ae35u;
  return x ^ (x >> 16);
}

} // namespace

row_map::row_map(std::size_t floats, std::size_t tags)
  : floats_{floats}, tags_{tags}, buckets_(1) {}

row_map::row_map(const row_map& other) : row_map{other.floats_, other.tags_} {
  *this = other;
}

row_map& row_map::operator=(const row_map& other) {
  if (this == &other)
    return *this;
  floats_ = other.floats_;
  tags_ = other.tags_;
  block_bytes_ = 0;
  std::deque<bucket> copies;
  for (const auto& one : other.buckets_) {
    auto& made = copies.emplace_back(make(one.rows));
    if (one.rows > 0)
      std::memcpy(made.memory.get(), one.memory.get(), bytes_of(one.rows));
  }
  buckets_ = std::move(copies);
  size_ = other.size_;
  level_ = other.level_;
  next_ = other.next_;
  return *this;
}

std::uint64_t row_map::bytes() const {
  return block_bytes_ + buckets_.size() * sizeof(bucket);
}

std::uint64_t row_map::row_bytes() const {
  return bytes_of(1) + (sizeof(bucket) + allocator_bytes) / mean_rows;
}

row_map::entry row_map::find(std::uint32_t number) const {
  const auto& of = buckets_[bucket_of(number)];
  if (of.rows == 0)
    return {};
  const auto* const first = at(of, 0).number_;
  const auto* const found = std::find(first, first + of.rows, number);
  return found == first + of.rows
           ? entry{}
           : at(of, static_cast<std::size_t>(found - first));
}

/// Prefetches what `prefetch_numbers` reads.
void row_map::prefetch_bucket(std::uint32_t number) const {
  __builtin_prefetch(&buckets_[bucket_of(number)]);
}

/// Prefetches the numbers of the bucket of a row.
void row_map::prefetch_numbers(std::uint32_t number) const {
  const auto& of = buckets_[bucket_of(number)];
  if (of.rows == 0)
    return;
  const auto* const first = at(of, 0).number_;
  prefetch(first, of.rows * sizeof *first);
}

/// Prefetches the floats and tags of a row. No effect if the map lacks it.
void row_map::prefetch_row(std::uint32_t number) const {
  const auto found = find(number);
  if (!found)
    return;
  prefetch(found.values_, floats_ * sizeof(float));
  prefetch(found.tags_, tags_ * sizeof(std::uint32_t));
}

row_map::entry row_map::insert(std::uint32_t number) {
  if (find(number))
    throw std::logic_error("there is a row " + std::to_string(number)
                           + " already");
  if (size_ >= buckets_.size() * mean_rows)
    divide_a_bucket();
  auto& into = buckets_[bucket_of(number)];
  auto larger = make(into.rows + std::size_t{1});
  if (const std::size_t rows = into.rows; rows > 0) {
    const auto from = at(into, 0), to = at(larger, 0);
    std::memcpy(to.values_, from.values_, rows * floats_ * sizeof(float));
    std::memcpy(to.number_, from.number_, rows * sizeof(std::uint32_t));
    std::memcpy(to.tags_, from.tags_, rows * tags_ * sizeof(std::uint32_t));
  }
  std::swap(into, larger);
  if (larger.memory)
    block_bytes_ -= bytes_of(larger.rows) + allocator_bytes;
  ++size_;
  auto made = at(into, into.rows - std::size_t{1});
  *made.number_ = number;
  return made;
}

void row_map::erase(std::uint32_t number) {
  keep_if(buckets_[bucket_of(number)],
          [=](const entry& x) { return x.number() != number; });
}

void row_map::erase_if(std::size_t bucket,
                       const std::function<bool(entry)>& fn) {
  keep_if(buckets_.at(bucket), [&](const entry& x) { return !fn(x); });
}

void row_map::for_each(const std::function<void(entry)>& fn) const {
  for (const auto& one : buckets_)
    for (std::size_t i = 0; i < one.rows; ++i)
      fn(at(one, i));
}

std::size_t row_map::bucket_of(std::uint32_t number) const {
  const std::size_t digits = hash(number);
  const auto wide = digits & ((std::size_t{2} << level_) - 1);
  return wide < buckets_.size() ? wide
                                : digits & ((std::size_t{1} << level_) - 1);
}

row_map::entry row_map::at(const bucket& of, std::size_t i) const {
  entry out;
  out.map_ = this;
  auto* const values = reinterpret_cast<float*>(of.memory.get());
  auto* const numbers =
    reinterpret_cast<std::uint32_t*>(values + of.rows * floats_);
  out.values_ = values + i * floats_;
  out.number_ = numbers + i;
  out.tags_ = numbers + of.rows + i * tags_;
  return out;
}

row_map::bucket row_map::make(std::size_t rows) {
  bucket out;
  if (rows == 0)
    return out;
  out.memory = std::make_unique_for_overwrite<std::byte[]>(bytes_of(rows));
  out.rows = static_cast<std::uint32_t>(rows);
  block_bytes_ += bytes_of(rows) + allocator_bytes;
  return out;
}

void row_map::copy(const entry& from, const entry& to) const {
  std::copy_n(from.values_, floats_, to.values_);
  std::copy_n(from.tags_, tags_, to.tags_);
  *to.number_ = *from.number_;
}

template <class F>
void row_map::keep_if(bucket& of, const F& fn) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < of.rows; ++i)
    kept += fn(at(of, i)) ? 1 : 0;
  if (kept == of.rows)
    return;
  auto smaller = make(kept);
  std::size_t to = 0;
  for (std::size_t i = 0; i < of.rows; ++i)
    if (const auto from = at(of, i); fn(from))
      copy(from, at(smaller, to++));
  size_ -= of.rows - kept;
  std::swap(of, smaller);
  block_bytes_ -= bytes_of(smaller.rows) + allocator_bytes;
}

/// Moves the rows of the next bucket whose hash has one more digit.
void row_map::divide_a_bucket() {
  const auto from = next_;
  buckets_.emplace_back();
  if (++next_ == std::size_t{1} << level_) {
    ++level_;
    next_ = 0;
  }
  auto& old = buckets_[from];
  const auto moves = [&](const entry& x) {
    return bucket_of(x.number()) != from;
  };
  std::size_t moved = 0;
  for (std::size_t i = 0; i < old.rows; ++i)
    moved += moves(at(old, i)) ? 1 : 0;
  buckets_.back() = make(moved);
  std::size_t to = 0;
  for (std::size_t i = 0; i < old.rows; ++i)
    if (const auto row = at(old, i); moves(row))
      copy(row, at(buckets_.back(), to++));
  keep_if(old, [&](const entry& x) { return !moves(x); });
  size_ += moved; // they were counted as removed
}

} // namespace troupe::parameter_server

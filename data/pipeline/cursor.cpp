#include "troupe/data/pipeline/cursor.hpp"

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/prefetcher.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::data {

cursor::cursor(std::shared_ptr<const stage> source, const position& start,
               std::size_t prefetch_count,
               std::chrono::milliseconds element_timeout)
  : stage_{std::move(source)},
    prefetch_count_{prefetch_count},
    element_timeout_{element_timeout} {
  restore(start);
}

cursor::cursor(cursor&&) noexcept = default;
cursor& cursor::operator=(cursor&&) noexcept = default;
cursor::~cursor() = default;

std::optional<batch> cursor::next() {
  return read_next(nullptr);
}

std::optional<batch> cursor::next(const std::stop_token& stop) {
  return read_next(&stop);
}

std::optional<batch> cursor::read_next(const std::stop_token* stop) {
  const auto end = stage_->size().value_or(whole_dataset);
  if (position_.index >= end)
    return std::nullopt;
  std::optional<batch> out;
  if (prefetch_count_ == 0) {
    out = stage_->read(position_, stop ? *stop : std::stop_token{});
  } else {
    if (!prefetcher_)
      prefetcher_ =
        std::make_unique<prefetcher>(stage_, position_, end, prefetch_count_);
    try {
      out =
        stop ? prefetcher_->next(*stop) : prefetcher_->next(element_timeout_);
    } catch (...) {
      if (prefetcher_->ended())
        prefetcher_.reset();
      throw;
    }
  }
  ++position_.index;
  return out;
}

void cursor::restore(const position& saved) {
  if (const auto n = stage_->size(); n && saved.index > *n)
    throw std::invalid_argument(
      "position " + std::to_string(saved.index) + " of a dataset of "
      + std::to_string(*n)
      + " elements: it was saved with another dataset or another batch size");
  prefetcher_.reset();
  position_ = saved;
}

} // namespace troupe::data

#include "troupe/data/pipeline/cursor.hpp"

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/data/pipeline/prefetcher.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::data {

cursor::cursor(std::shared_ptr<const stage> over, const position& from,
               std::size_t ahead, std::chrono::milliseconds patience)
  : over_{std::move(over)}, count_{ahead}, patience_{patience} {
  restore(from);
}

cursor::cursor(cursor&&) noexcept = default;
cursor& cursor::operator=(cursor&&) noexcept = default;
cursor::~cursor() = default;

std::optional<batch> cursor::next() {
  const auto end = over_->size().value_or(whole);
  if (at_.index >= end)
    return std::nullopt;
  std::optional<batch> out;
  if (count_ == 0) {
    out = over_->read(at_, {});
  } else {
    if (!ahead_)
      ahead_ = std::make_unique<read_ahead>(over_, at_, end, count_);
    try {
      out = ahead_->next(patience_);
    } catch (...) {
      if (ahead_->ended())
        ahead_.reset();
      throw;
    }
  }
  ++at_.index;
  return out;
}

void cursor::restore(const position& to) {
  if (const auto n = over_->size(); n && to.index > *n)
    throw std::invalid_argument(
      "position " + std::to_string(to.index) + " of a dataset of "
      + std::to_string(*n)
      + " elements: it was saved with another dataset or another batch size");
  ahead_.reset();
  at_ = to;
}

} // namespace troupe::data

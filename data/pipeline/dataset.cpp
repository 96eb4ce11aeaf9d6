#include "troupe/data/pipeline/dataset.hpp"

#include "troupe/data/pipeline/stage.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::data {

dataset::dataset(tensor inputs, tensor labels, std::int64_t classes)
  : last_{
    std::make_shared<rows>(std::move(inputs), std::move(labels), classes)} {}

dataset dataset::of_pixels(tensor x, tensor labels, std::int64_t classes) {
  if (x.type() != dtype::uint8)
    throw std::invalid_argument("pixels of " + to_string(x.spec())
                                + ": give them as uint8 [n, ...]");
  dataset out;
  out.last_ =
    std::make_shared<pixels>(std::move(x), std::move(labels), classes);
  return out;
}

dataset::dataset(std::uint64_t size, std::int64_t classes,
                 std::function<troupe::batch(std::uint64_t)> fn)
  : last_{std::make_shared<made>(size, classes, std::move(fn))} {}

dataset dataset::with(std::shared_ptr<const stage> last) const {
  auto out = *this;
  out.last_ = std::move(last);
  return out;
}

dataset
dataset::map(std::function<troupe::batch(const troupe::batch&)> fn) const {
  return with(std::make_shared<mapped>(last_, std::move(fn)));
}

dataset dataset::shuffle(std::uint64_t block, std::uint64_t seed,
                         bool each_pass) const {
  return with(std::make_shared<shuffled>(last_, block, seed, each_pass));
}

dataset dataset::batch(std::uint64_t count, bool drop_remainder) const {
  return with(std::make_shared<batched>(last_, count, drop_remainder));
}

dataset dataset::repeat(std::optional<std::uint64_t> times) const {
  return with(std::make_shared<repeated>(last_, times));
}

dataset dataset::take(std::uint64_t count) const {
  return with(std::make_shared<window>(last_, 0, count));
}

dataset dataset::skip(std::uint64_t count) const {
  return with(std::make_shared<window>(last_, count, whole));
}

dataset dataset::part(std::uint32_t first, std::uint32_t last,
                      std::uint32_t parts) const {
  return with(std::make_shared<partial>(last_, first, last, parts));
}

dataset
dataset::prefetch(std::size_t count,
                  std::optional<std::chrono::milliseconds> patience) const {
  auto out = *this;
  out.ahead_ = count;
  out.patience_ = patience.value_or(patience_);
  return out;
}

dataset::parts dataset::split(double fraction) const {
  if (!(fraction > 0 && fraction < 1))
    throw std::invalid_argument("split at " + std::to_string(fraction)
                                + ": give a fraction between 0 and 1");
  const auto n = size();
  if (!n)
    throw std::invalid_argument("split of an endless dataset: split before "
                                "repeat");
  if (last_->varies())
    throw std::invalid_argument(
      "split after a shuffle that differs per epoch mixes the two parts: split "
      "first, or shuffle with each_epoch = false");
  const auto first =
    static_cast<std::uint64_t>(std::llround(fraction * double(*n)));
  return {take(first), skip(first)};
}

std::optional<std::uint64_t> dataset::size() const {
  return last_->size();
}

std::int64_t dataset::classes() const {
  return last_->classes();
}

std::optional<std::uint64_t> dataset::batch_rows(const position& at) const {
  return last_->rows_of(at);
}

tensor_spec dataset::element() const {
  if (size() == 0)
    throw std::invalid_argument("an empty dataset has no first element");
  return last_->read({}, {}).inputs.spec();
}

troupe::batch dataset::examples(std::uint64_t begin, std::uint64_t end) const {
  if (begin >= end || end > size().value_or(whole))
    throw std::invalid_argument("elements [" + std::to_string(begin) + ", "
                                + std::to_string(end) + ") of a dataset of "
                                + std::to_string(size().value_or(whole)));
  std::vector<position> at(end - begin);
  for (auto& x : at)
    x.index = begin++;
  auto out = last_->stack(at, {});
  out.global_rows = std::int64_t(at.size());
  return out;
}

cursor dataset::iterate(const position& from) const {
  return {last_, from, ahead_.value_or(0), patience_};
}

} // namespace troupe::data

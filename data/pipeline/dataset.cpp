#include "troupe/data/pipeline/dataset.hpp"

#include "troupe/data/pipeline/batch_stage.hpp"
#include "troupe/data/pipeline/shuffle_stage.hpp"
#include "troupe/data/pipeline/stage.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::data {

namespace {

/// Returns the number of classes of a dataset with these labels. Zero: the
/// labels are no class numbers.
std::int64_t classes_of(const tensor& labels, std::int64_t classes) {
  const bool are_numbers =
    labels && labels.type() == dtype::int32 && labels.dims().rank() == 1;
  const bool is_column = labels && labels.type() == dtype::int32
                         && labels.dims().rank() == 2 && labels.dims()[1] == 1;
  if (!are_numbers && classes != 0)
    throw std::invalid_argument(
      std::to_string(classes) + " classes of labels "
      + (labels ? to_string(labels.spec()) : std::string{"that do not exist"})
      + ": class numbers are int32[n]; "
      + (is_column ? "reshape the labels to [n]"
                   : "leave the number out for other labels"));
  return are_numbers ? checked_classes(classes, labels) : 0;
}

} // namespace

dataset::dataset(tensor inputs, tensor labels, std::int64_t classes) {
  if (!inputs)
    throw std::invalid_argument(
      "inputs that are an empty tensor do not form a dataset: give inputs "
      "[n, ...]");
  const auto count = classes_of(labels, classes);
  last_ = std::make_shared<tensor_stage>(
    troupe::batch{std::move(inputs), std::move(labels)}, count);
}

namespace {

/// Checks that the names of all tensors of a batch differ.
void check_names(const batch& rows) {
  for (auto one = rows.others.begin(); one != rows.others.end(); ++one) {
    if (one->name == "inputs" || one->name == "labels")
      throw std::invalid_argument("the tensor \"" + one->name
                                  + "\" in `others`: this is the name of a "
                                    "member of a batch; give another name");
    if (std::any_of(rows.others.begin(), one, [&](const auto& earlier) {
          return earlier.name == one->name;
        }))
      throw std::invalid_argument("two tensors in `others` have the name \""
                                  + one->name
                                  + "\"; give each tensor its own name");
  }
}

} // namespace

dataset dataset::of(troupe::batch rows, std::int64_t classes) {
  check_names(rows);
  dataset out;
  const auto count = classes > 0 ? classes_of(rows.labels, classes) : 0;
  out.last_ = std::make_shared<tensor_stage>(std::move(rows), count);
  return out;
}

dataset dataset::of_pixels(tensor pixels, tensor labels, std::int64_t classes) {
  if (pixels.type() != dtype::uint8)
    throw std::invalid_argument("pixels of " + to_string(pixels.spec())
                                + ": give them as uint8 [n, ...]");
  const auto count = classes_of(labels, classes);
  dataset out;
  out.last_ =
    std::make_shared<pixel_stage>(std::move(pixels), std::move(labels), count);
  return out;
}

dataset::dataset(std::uint64_t size, std::int64_t classes,
                 std::function<troupe::batch(std::uint64_t)> fn)
  : last_{std::make_shared<generated_stage>(size, classes, std::move(fn))} {}

dataset dataset::append_stage(std::shared_ptr<const stage> last) const {
  auto out = *this;
  out.last_ = std::move(last);
  return out;
}

dataset
dataset::map(std::function<troupe::batch(const troupe::batch&)> fn) const {
  return append_stage(std::make_shared<map_stage>(last_, std::move(fn)));
}

dataset dataset::shuffle(std::uint64_t block, std::uint64_t seed,
                         bool each_epoch) const {
  return append_stage(
    std::make_shared<shuffle_stage>(last_, block, seed, each_epoch));
}

dataset dataset::batch(std::uint64_t count, bool drop_remainder) const {
  return append_stage(
    std::make_shared<batch_stage>(last_, count, drop_remainder));
}

dataset dataset::repeat(std::optional<std::uint64_t> times) const {
  return append_stage(std::make_shared<repeat_stage>(last_, times));
}

dataset dataset::take(std::uint64_t count) const {
  return append_stage(std::make_shared<slice_stage>(last_, 0, count));
}

dataset dataset::skip(std::uint64_t count) const {
  return append_stage(
    std::make_shared<slice_stage>(last_, count, whole_dataset));
}

dataset dataset::shard(std::uint32_t first, std::uint32_t last,
                       std::uint32_t shards) const {
  return append_stage(
    std::make_shared<shard_stage>(last_, first, last, shards));
}

dataset dataset::shard_by_shares(std::uint32_t first, std::uint32_t last,
                                 std::vector<std::uint32_t> shares) const {
  return append_stage(
    std::make_shared<shard_stage>(last_, first, last, std::move(shares)));
}

dataset dataset::prefetch(
  std::size_t count,
  std::optional<std::chrono::milliseconds> element_timeout) const {
  auto out = *this;
  out.prefetch_count_ = count;
  out.element_timeout_ = element_timeout.value_or(element_timeout_);
  return out;
}

dataset::train_test dataset::split(double fraction) const {
  if (!(fraction > 0 && fraction < 1))
    throw std::invalid_argument("split at " + std::to_string(fraction)
                                + ": give a fraction between 0 and 1");
  const auto n = size();
  if (!n)
    throw std::invalid_argument("split of an endless dataset: split before "
                                "repeat");
  if (last_->differs_per_epoch())
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

std::optional<std::uint64_t> dataset::batch_rows(const position& pos) const {
  return last_->rows_of(pos);
}

tensor_spec dataset::element() const {
  return first_element().inputs.spec();
}

std::vector<named_spec> dataset::spec() const {
  std::vector<named_spec> out;
  first_element().for_each([&](std::string_view name, const tensor& one) {
    out.push_back({std::string{name}, one.spec()});
  });
  return out;
}

troupe::batch dataset::first_element() const {
  if (size() == 0)
    throw std::invalid_argument("an empty dataset has no first element");
  return last_->read({}, {});
}

troupe::batch dataset::examples(std::uint64_t begin, std::uint64_t end) const {
  if (begin >= end || end > size().value_or(whole_dataset))
    throw std::invalid_argument(
      "elements [" + std::to_string(begin) + ", " + std::to_string(end)
      + ") of a dataset of " + std::to_string(size().value_or(whole_dataset)));
  std::vector<position> positions(end - begin);
  for (auto& x : positions)
    x.index = begin++;
  auto out = last_->stack(positions, {});
  out.global_rows = std::int64_t(positions.size());
  return out;
}

cursor dataset::iterate(const position& start) const {
  return {last_, start, prefetch_count_.value_or(0), element_timeout_};
}

} // namespace troupe::data

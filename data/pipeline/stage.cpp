#include "troupe/data/pipeline/stage.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::data {

namespace {

/// Allocates a tensor for `count` elements of this spec along a new first axis.
tensor allocate_stacked(std::size_t count, const tensor_spec& one) {
  std::array<std::int64_t, shape::max_rank + 1> extents;
  extents[0] = std::int64_t(count);
  std::ranges::copy(one.dims, extents.begin() + 1);
  return tensor{shape{std::span{extents}.first(one.dims.rank() + 1)}, one.type};
}

void put(const tensor& element, std::size_t row, const tensor& first,
         tensor& output) {
  if (element.spec() != first.spec())
    throw std::invalid_argument(
      "elements of " + to_string(first.spec()) + " and "
      + to_string(element.spec())
      + " cannot be in one batch: make them equal in map");
  if (element.bytes() > 0)
    std::memcpy(output.raw() + row * element.bytes(), element.raw(),
                element.bytes());
}

/// Copies the rows at these positions into one tensor.
tensor gather(const tensor& source, std::span<const position> positions) {
  auto out =
    tensor{source.dims().with_extent(0, std::int64_t(positions.size())),
           source.type()};
  const auto row = out.bytes() / positions.size();
  auto* to = out.raw();
  for (std::size_t i = 0; i < positions.size() && row > 0; ++i, to += row)
    std::memcpy(to, source.raw() + positions[i].index * row, row);
  return out;
}

/// Copies the rows at these positions, with each byte divided by 255.
tensor gather_unit(const tensor& source, std::span<const position> positions) {
  tensor out{source.dims().with_extent(0, std::int64_t(positions.size()))};
  const auto row = out.size() / positions.size();
  const auto bytes = source.data<std::uint8_t>();
  auto* to = out.mutable_data<float>().data();
  for (const auto& x : positions)
    for (const auto byte : bytes.subspan(x.index * row, row))
      *to++ = float(byte) / 255;
  return out;
}

/// Returns one row without its first axis.
tensor row_of(const tensor& source, std::uint64_t row) {
  const auto i = std::int64_t(row);
  const auto& dims = source.dims();
  return source.slice(i, i + 1).reshaped(dims.axes(1, dims.rank()));
}

std::string tensor_names(const batch& x) {
  std::string names;
  x.for_each([&](std::string_view name, const tensor&) {
    names += (names.empty() ? "" : ", ") + std::string{name};
  });
  return names;
}

/// Sets `global_rows` of a batch that a user's function made. If the labels are
/// class numbers, their rank tells a batch from an example. Otherwise an
/// element is an example unless the function set `global_rows`.
void mark_batch(batch& element, std::int64_t classes, const char* source) {
  if (element.global_rows == 0
      && (classes == 0 || !element.labels || element.labels.dims().rank() == 0))
    return;
  check_rows(element, source);
  if (element.global_rows == 0)
    element.global_rows = element.rows();
}

/// Makes the tensors read-only whose elements others use too, such as the
/// dataset, so that the function of a map cannot change them.
void protect_shared(batch& element) {
  const auto protect = [](tensor& one) {
    if (!one.unique())
      one = std::move(one).read_only();
  };
  protect(element.inputs);
  protect(element.labels);
  for (auto& one : element.others)
    protect(one.value);
}

void check_same_tensors(const batch& element, const batch& first) {
  bool same = bool(element.inputs) == bool(first.inputs)
              && bool(element.labels) == bool(first.labels)
              && element.others.size() == first.others.size();
  for (std::size_t i = 0; same && i < first.others.size(); ++i)
    same = element.others[i].name == first.others[i].name;
  if (!same)
    throw std::invalid_argument("elements with the tensors "
                                + tensor_names(first) + " and "
                                + tensor_names(element)
                                + " cannot be in one batch: make them equal in "
                                  "map");
}

} // namespace

batch stage::stack(std::span<const position> positions,
                   const std::stop_token& stop) const {
  const auto first = read(positions[0], stop);
  auto out = transform_tensors(first, [&](const tensor& one) {
    return allocate_stacked(positions.size(), one.spec());
  });
  out.global_rows = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (stop.stop_requested())
      throw read_cancelled{};
    const auto one = i == 0 ? first : read(positions[i], stop);
    check_same_tensors(one, first);
    if (first.inputs)
      put(one.inputs, i, first.inputs, out.inputs);
    if (first.labels)
      put(one.labels, i, first.labels, out.labels);
    for (std::size_t k = 0; k < first.others.size(); ++k)
      put(one.others[k].value, i, first.others[k].value, out.others[k].value);
  }
  return out;
}

batch stage::read_rows(const position& pos, const row_range& range,
                       const std::stop_token& stop) const {
  return select_rows(read(pos, stop), range);
}

void check_unrecorded(const batch& element, const char* source) {
  element.for_each([&](std::string_view, const tensor& one) {
    if (is_recorded(one))
      throw std::logic_error(
        std::string{source} + " " + to_string(one.spec())
        + ", which a tape records; a dataset would lose its gradient: pass "
          "its detach()");
  });
}

void check_rows(const batch& x, const char* source) {
  bool fits = true;
  std::string shapes;
  x.for_each([&](std::string_view name, const tensor& one) {
    fits = fits && one.dims().rank() > 0 && one.dims().front() == x.rows();
    shapes += (shapes.empty() ? "" : " and ") + std::string{name} + " "
              + to_string(one.spec());
  });
  if (!fits)
    throw std::invalid_argument(std::string{source} + " " + shapes
                                + ": all tensors of a batch have the same "
                                  "number of rows");
}

std::int64_t checked_classes(std::int64_t classes, const tensor& labels) {
  if (classes < 0)
    throw std::invalid_argument(
      std::to_string(classes)
      + " classes: give the number of classes, or 0 to take "
        "it from the labels");
  const auto values = labels.data<std::int32_t>();
  if (values.empty())
    return classes;
  const auto max_label = std::ranges::max(values);
  if (const auto bad = std::ranges::find_if(
        values, [&](auto x) { return x < 0 || (classes > 0 && x >= classes); });
      bad != values.end())
    throw std::invalid_argument(
      "label " + std::to_string(*bad) + " of example "
      + std::to_string(bad - values.begin()) + " is not in [0, "
      + (classes > 0 ? std::to_string(classes) : std::string{"classes"})
      + "): number the classes from 0 on");
  return classes > 0 ? classes : std::int64_t{max_label} + 1;
}

// -- sources ------------------------------------------------------------------

tensor_stage::tensor_stage(batch rows, std::int64_t classes)
  : classes_{classes} {
  check_unrecorded(rows, "a dataset was given");
  if (!rows.inputs && !rows.labels && rows.others.empty())
    throw std::invalid_argument(
      "a dataset of no tensors: give at least the inputs");
  check_rows(rows, "a dataset was given");
  rows_ =
    transform_tensors(rows, [](const tensor& one) { return one.detach(); });
}

std::optional<std::uint64_t> tensor_stage::size() const {
  return std::uint64_t(rows_.rows());
}

batch tensor_stage::read(const position& pos, const std::stop_token&) const {
  auto out = transform_tensors(
    rows_, [&](const tensor& one) { return row_of(one, pos.index); });
  out.global_rows = 0;
  return out;
}

batch tensor_stage::stack(std::span<const position> positions,
                          const std::stop_token&) const {
  const auto first = positions[0].index;
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (positions[i].index != first + i)
      return transform_tensors(
        rows_, [&](const tensor& one) { return gather(one, positions); });
  const auto begin = std::int64_t(first);
  return select_rows(rows_, {begin, begin + std::int64_t(positions.size())});
}

pixel_stage::pixel_stage(tensor pixels, tensor labels, std::int64_t classes)
  : pixels_{pixels.detach()}, labels_{labels.detach()}, classes_{classes} {
  check_unrecorded({pixels, labels}, "a dataset was given");
  check_rows({pixels, labels}, "a dataset was given");
}

std::optional<std::uint64_t> pixel_stage::size() const {
  return std::uint64_t(pixels_.dims().front());
}

batch pixel_stage::read(const position& pos, const std::stop_token&) const {
  const auto one = gather_unit(pixels_, {&pos, 1});
  return {one.reshaped(one.dims().axes(1, one.dims().rank())),
          row_of(labels_, pos.index)};
}

batch pixel_stage::stack(std::span<const position> positions,
                         const std::stop_token&) const {
  return {gather_unit(pixels_, positions), gather(labels_, positions)};
}

generated_stage::generated_stage(std::uint64_t size, std::int64_t classes,
                                 std::function<batch(std::uint64_t)> fn)
  : size_{size}, classes_{classes}, fn_{std::move(fn)} {
  if (!fn_ || classes < 0)
    throw std::invalid_argument(
      "a dataset of generated elements needs a function and a number of "
      "classes, or 0 if the labels are no class numbers");
}

batch generated_stage::read(const position& pos, const std::stop_token&) const {
  const flush_denormals flushing;
  auto out = fn_(pos.index);
  check_unrecorded(out, "a dataset's function gave");
  mark_batch(out, classes_, "a dataset's function gave");
  return out;
}

// -- links --------------------------------------------------------------------

map_stage::map_stage(std::shared_ptr<const stage> upstream,
                     std::function<batch(const batch&)> fn)
  : wrapping_stage{std::move(upstream)}, fn_{std::move(fn)} {
  if (!fn_)
    throw std::invalid_argument("map needs a function");
}

batch map_stage::read(const position& pos, const std::stop_token& stop) const {
  auto element = upstream().read(pos, stop);
  protect_shared(element);
  const flush_denormals flushing;
  auto out = fn_(element);
  check_unrecorded(out, "the function of map gave");
  if (!is_batch(element)) {
    mark_batch(out, classes(), "the function of map gave");
    return out;
  }
  check_rows(out, "the function of map gave");
  const auto count = out.rows();
  if (out.global_rows == 0 || out.global_rows == element.global_rows)
    out.global_rows = count == element.rows() ? element.global_rows : count;
  return out;
}

batch reindexing_stage::read(const position& pos,
                             const std::stop_token& stop) const {
  auto from = pos;
  map_positions({&from, 1});
  return upstream().read(from, stop);
}

batch reindexing_stage::stack(std::span<const position> positions,
                              const std::stop_token& stop) const {
  pooled<position> from(positions.begin(), positions.end());
  map_positions(from);
  return upstream().stack(from, stop);
}

std::optional<std::uint64_t>
reindexing_stage::rows_of(const position& pos) const {
  auto from = pos;
  map_positions({&from, 1});
  return upstream().rows_of(from);
}

batch reindexing_stage::read_rows(const position& pos, const row_range& range,
                                  const std::stop_token& stop) const {
  auto from = pos;
  map_positions({&from, 1});
  return upstream().read_rows(from, range, stop);
}

slice_stage::slice_stage(std::shared_ptr<const stage> upstream,
                         std::uint64_t first, std::uint64_t count)
  : reindexing_stage{std::move(upstream)}, first_{first}, count_{count} {}

std::optional<std::uint64_t> slice_stage::size() const {
  const auto below = upstream().size();
  if (!below)
    return count_ == whole_dataset ? below : count_;
  return std::min(count_, *below - std::min(*below, first_));
}

void slice_stage::map_positions(std::span<position> positions) const {
  for (auto& x : positions)
    x.index += first_;
}

repeat_stage::repeat_stage(std::shared_ptr<const stage> upstream,
                           std::optional<std::uint64_t> times)
  : reindexing_stage{std::move(upstream)}, times_{times} {}

std::optional<std::uint64_t> repeat_stage::size() const {
  const auto below = upstream().size();
  if (below == 0 || times_ == 0)
    return 0;
  if (!below || !times_ || *times_ > whole_dataset / *below)
    return std::nullopt;
  return *times_ * *below;
}

void repeat_stage::map_positions(std::span<position> positions) const {
  const auto below = upstream().size();
  if (!below)
    return; // An endless epoch is never repeated.
  // If the epochs of this stage are endless, each counts as 2^32 upstream
  // epochs: epoch p begins with upstream epoch p * 2^32.
  const auto times = size() ? *times_ : std::uint64_t{1} << 32;
  for (auto& x : positions)
    x = {x.epoch * times + x.index / *below, x.index % *below};
}

} // namespace troupe::data

#include "troupe/data/pipeline/stage.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

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

std::int64_t checked_classes(std::int64_t classes,
                             std::span<const std::int32_t> labels) {
  const auto max_label = std::ranges::max(labels);
  if (const auto bad = std::ranges::find_if(
        labels, [&](auto x) { return x < 0 || (classes > 0 && x >= classes); });
      bad != labels.end())
    throw std::invalid_argument(
      "label " + std::to_string(*bad) + " of example "
      + std::to_string(bad - labels.begin()) + " is not in [0, "
      + (classes > 0 ? std::to_string(classes) : std::string{"classes"})
      + "): number the classes from 0 on");
  return classes > 0 ? classes : std::int64_t{max_label} + 1;
}

} // namespace

batch stage::stack(std::span<const position> positions,
                   const std::stop_token& stop) const {
  const auto first = read(positions[0], stop);
  auto out = batch{allocate_stacked(positions.size(), first.inputs.spec()),
                   allocate_stacked(positions.size(), first.labels.spec())};
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (stop.stop_requested())
      throw read_cancelled{};
    const auto one = i == 0 ? first : read(positions[i], stop);
    put(one.inputs, i, first.inputs, out.inputs);
    put(one.labels, i, first.labels, out.labels);
  }
  return out;
}

batch stage::read_rows(const position& pos, const row_range& range,
                       const std::stop_token& stop) const {
  const auto all = read(pos, stop);
  return {all.inputs.slice(range.begin, range.end),
          all.labels.slice(range.begin, range.end), all.global_rows};
}

void check_unrecorded(const batch& element, const char* source) {
  for (const auto* one : {&element.inputs, &element.labels})
    if (is_recorded(*one))
      throw std::logic_error(
        std::string{source} + " " + to_string(one->spec())
        + ", which a tape records; a dataset would lose its gradient: pass "
          "its detach()");
}

std::int64_t row_count(const batch& x) {
  const auto& dims = x.labels.dims();
  return dims.rank() == 0 ? 0 : dims.front();
}

// -- sources ------------------------------------------------------------------

tensor_stage::tensor_stage(tensor inputs, tensor labels, std::int64_t classes)
  : inputs_{inputs.detach()}, labels_{labels.detach()}, classes_{classes} {
  check_unrecorded({inputs, labels}, "a dataset was given");
  const auto& input_dims = inputs_.dims();
  const auto& label_dims = labels_.dims();
  if (!inputs_ || input_dims.rank() == 0 || label_dims.rank() != 1
      || input_dims.front() != label_dims.front()
      || labels_.type() != dtype::int32)
    throw std::invalid_argument(
      "inputs " + to_string(inputs_.spec()) + " and labels "
      + to_string(labels_.spec())
      + " do not form a dataset: inputs must be [n, ...] and labels int32[n]");
  if (classes < 0)
    throw std::invalid_argument(
      std::to_string(classes)
      + " classes: give the number of classes, or 0 to take "
        "it from the labels");
  if (label_dims.front() > 0)
    classes_ = checked_classes(classes, labels_.data<std::int32_t>());
}

std::optional<std::uint64_t> tensor_stage::size() const {
  return std::uint64_t(inputs_.dims().front());
}

batch tensor_stage::read(const position& pos, const std::stop_token&) const {
  const auto i = std::int64_t(pos.index);
  const auto& x = inputs_.dims();
  return {inputs_.slice(i, i + 1).reshaped(x.axes(1, x.rank())),
          labels_.slice(i, i + 1).reshaped({})};
}

batch tensor_stage::stack(std::span<const position> positions,
                          const std::stop_token&) const {
  const auto first = positions[0].index;
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (positions[i].index != first + i)
      return {gather(inputs_, positions), gather(labels_, positions)};
  const auto begin = std::int64_t(first),
             end = begin + std::int64_t(positions.size());
  return {inputs_.slice(begin, end), labels_.slice(begin, end)};
}

batch pixel_stage::read(const position& pos, const std::stop_token&) const {
  const auto one = gather_unit(inputs(), {&pos, 1});
  const auto i = std::int64_t(pos.index);
  return {one.reshaped(one.dims().axes(1, one.dims().rank())),
          labels().slice(i, i + 1).reshaped({})};
}

batch pixel_stage::stack(std::span<const position> positions,
                         const std::stop_token&) const {
  return {gather_unit(inputs(), positions), gather(labels(), positions)};
}

generated_stage::generated_stage(std::uint64_t size, std::int64_t classes,
                                 std::function<batch(std::uint64_t)> fn)
  : size_{size}, classes_{classes}, fn_{std::move(fn)} {
  if (!fn_ || classes < 1)
    throw std::invalid_argument("a dataset of generated elements needs a "
                                "function and at least one class");
}

batch generated_stage::read(const position& pos, const std::stop_token&) const {
  const flush_denormals flushing;
  auto out = fn_(pos.index);
  check_unrecorded(out, "a dataset's function gave");
  if (out.global_rows == 0)
    out.global_rows = row_count(out);
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
  const auto element = upstream().read(pos, stop);
  const flush_denormals flushing;
  auto out = fn_(element);
  check_unrecorded(out, "the function of map gave");
  const auto count = row_count(out);
  if (out.global_rows == 0 || out.global_rows == element.global_rows)
    out.global_rows = count == row_count(element) ? element.global_rows : count;
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

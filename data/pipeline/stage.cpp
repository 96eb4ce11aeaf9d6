#include "troupe/data/pipeline/stage.hpp"

#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace troupe::data {

namespace {

/// Allocates a tensor for `count` elements of this spec along a new first axis.
tensor room_for(std::size_t count, const tensor_spec& one) {
  std::array<std::int64_t, shape::max_rank + 1> extents;
  extents[0] = std::int64_t(count);
  std::ranges::copy(one.dims, extents.begin() + 1);
  return tensor{shape{std::span{extents}.first(one.dims.rank() + 1)}, one.type};
}

void put(const tensor& one, std::size_t row, const tensor& first, tensor& to) {
  if (one.spec() != first.spec())
    throw std::invalid_argument(
      "elements of " + to_string(first.spec()) + " and " + to_string(one.spec())
      + " cannot be in one batch: make them equal in map");
  if (one.bytes() > 0)
    std::memcpy(to.raw() + row * one.bytes(), one.raw(), one.bytes());
}

/// Copies the rows at these positions into one tensor.
tensor gather(const tensor& from, std::span<const position> at) {
  auto out = tensor{from.dims().with(0, std::int64_t(at.size())), from.type()};
  const auto row = out.bytes() / at.size();
  auto* to = out.raw();
  for (std::size_t i = 0; i < at.size() && row > 0; ++i, to += row)
    std::memcpy(to, from.raw() + at[i].index * row, row);
  return out;
}

/// Copies the rows at these positions, with each byte divided by 255.
tensor gather_unit(const tensor& from, std::span<const position> at) {
  tensor out{from.dims().with(0, std::int64_t(at.size()))};
  const auto row = out.size() / at.size();
  const auto bytes = from.data<std::uint8_t>();
  auto* to = out.mutable_data<float>().data();
  for (const auto& x : at)
    for (const auto byte : bytes.subspan(x.index * row, row))
      *to++ = float(byte) / 255;
  return out;
}

std::int64_t checked(std::int64_t classes, std::span<const std::int32_t> of) {
  const auto largest = std::ranges::max(of);
  if (const auto bad = std::ranges::find_if(
        of, [&](auto x) { return x < 0 || (classes > 0 && x >= classes); });
      bad != of.end())
    throw std::invalid_argument(
      "label " + std::to_string(*bad) + " of example "
      + std::to_string(bad - of.begin()) + " is not in [0, "
      + (classes > 0 ? std::to_string(classes) : std::string{"classes"})
      + "): number the classes from 0 on");
  return classes > 0 ? classes : std::int64_t{largest} + 1;
}

} // namespace

batch stage::stack(std::span<const position> at,
                   const std::stop_token& stop) const {
  const auto first = read(at[0], stop);
  auto out = batch{room_for(at.size(), first.inputs.spec()),
                   room_for(at.size(), first.labels.spec())};
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (stop.stop_requested())
      throw abandoned{};
    const auto one = i == 0 ? first : read(at[i], stop);
    put(one.inputs, i, first.inputs, out.inputs);
    put(one.labels, i, first.labels, out.labels);
  }
  return out;
}

batch stage::read_rows(const position& at, const share& which,
                       const std::stop_token& stop) const {
  const auto all = read(at, stop);
  return {all.inputs.slice(which.begin, which.end),
          all.labels.slice(which.begin, which.end), all.global_rows};
}

void check_unrecorded(const batch& x, const char* what) {
  for (const auto* one : {&x.inputs, &x.labels})
    if (is_recorded(*one))
      throw std::logic_error(
        std::string{what} + " " + to_string(one->spec())
        + ", which a tape records; a dataset would lose its gradient: pass "
          "its detach()");
}

std::int64_t row_count(const batch& x) {
  const auto& dims = x.labels.dims();
  return dims.rank() == 0 ? 0 : dims.front();
}

// -- sources ------------------------------------------------------------------

rows::rows(tensor inputs, tensor labels, std::int64_t classes)
  : inputs_{inputs.detach()}, labels_{labels.detach()}, classes_{classes} {
  check_unrecorded({inputs, labels}, "a dataset was given");
  const auto& x = inputs_.dims();
  const auto& y = labels_.dims();
  if (!inputs_ || x.rank() == 0 || y.rank() != 1 || x.front() != y.front()
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
  if (y.front() > 0)
    classes_ = checked(classes, labels_.data<std::int32_t>());
}

std::optional<std::uint64_t> rows::size() const {
  return std::uint64_t(inputs_.dims().front());
}

batch rows::read(const position& at, const std::stop_token&) const {
  const auto i = std::int64_t(at.index);
  const auto& x = inputs_.dims();
  return {inputs_.slice(i, i + 1).reshaped(x.axes(1, x.rank())),
          labels_.slice(i, i + 1).reshaped({})};
}

batch rows::stack(std::span<const position> at, const std::stop_token&) const {
  const auto first = at[0].index;
  for (std::size_t i = 0; i < at.size(); ++i)
    if (at[i].index != first + i)
      return {gather(inputs_, at), gather(labels_, at)};
  const auto begin = std::int64_t(first), end = begin + std::int64_t(at.size());
  return {inputs_.slice(begin, end), labels_.slice(begin, end)};
}

batch pixels::read(const position& at, const std::stop_token&) const {
  const auto one = gather_unit(inputs(), {&at, 1});
  const auto i = std::int64_t(at.index);
  return {one.reshaped(one.dims().axes(1, one.dims().rank())),
          labels().slice(i, i + 1).reshaped({})};
}

batch pixels::stack(std::span<const position> at,
                    const std::stop_token&) const {
  return {gather_unit(inputs(), at), gather(labels(), at)};
}

made::made(std::uint64_t size, std::int64_t classes,
           std::function<batch(std::uint64_t)> fn)
  : size_{size}, classes_{classes}, fn_{std::move(fn)} {
  if (!fn_ || classes < 1)
    throw std::invalid_argument("a dataset of generated elements needs a "
                                "function and at least one class");
}

batch made::read(const position& at, const std::stop_token&) const {
  auto out = fn_(at.index);
  check_unrecorded(out, "a dataset's function gave");
  if (out.global_rows == 0)
    out.global_rows = row_count(out);
  return out;
}

// -- links --------------------------------------------------------------------

mapped::mapped(std::shared_ptr<const stage> on,
               std::function<batch(const batch&)> fn)
  : link{std::move(on)}, fn_{std::move(fn)} {
  if (!fn_)
    throw std::invalid_argument("map needs a function");
}

batch mapped::read(const position& at, const std::stop_token& stop) const {
  const auto in = on().read(at, stop);
  auto out = fn_(in);
  check_unrecorded(out, "the function of map gave");
  const auto count = row_count(out);
  if (out.global_rows == 0 || out.global_rows == in.global_rows)
    out.global_rows = count == row_count(in) ? in.global_rows : count;
  return out;
}

batch moved::read(const position& at, const std::stop_token& stop) const {
  auto from = at;
  trace({&from, 1});
  return on().read(from, stop);
}

batch moved::stack(std::span<const position> at,
                   const std::stop_token& stop) const {
  pooled<position> from(at.begin(), at.end());
  trace(from);
  return on().stack(from, stop);
}

std::optional<std::uint64_t> moved::rows_of(const position& at) const {
  auto from = at;
  trace({&from, 1});
  return on().rows_of(from);
}

batch moved::read_rows(const position& at, const share& which,
                       const std::stop_token& stop) const {
  auto from = at;
  trace({&from, 1});
  return on().read_rows(from, which, stop);
}

window::window(std::shared_ptr<const stage> on, std::uint64_t first,
               std::uint64_t count)
  : moved{std::move(on)}, first_{first}, count_{count} {}

std::optional<std::uint64_t> window::size() const {
  const auto below = on().size();
  if (!below)
    return count_ == whole ? below : count_;
  return std::min(count_, *below - std::min(*below, first_));
}

void window::trace(std::span<position> at) const {
  for (auto& x : at)
    x.index += first_;
}

repeated::repeated(std::shared_ptr<const stage> on,
                   std::optional<std::uint64_t> times)
  : moved{std::move(on)}, times_{times} {}

std::optional<std::uint64_t> repeated::size() const {
  const auto below = on().size();
  if (below == 0 || times_ == 0)
    return 0;
  if (!below || !times_ || *times_ > whole / *below)
    return std::nullopt;
  return *times_ * *below;
}

void repeated::trace(std::span<position> at) const {
  const auto below = on().size();
  if (!below)
    return; // An endless epoch is never repeated.
  // If the repeated epoch is endless, epoch p maps to epochs from p * 2^32 of
  // the stage below.
  const auto times = size() ? *times_ : std::uint64_t{1} << 32;
  for (auto& x : at)
    x = {x.pass * times + x.index / *below, x.index % *below};
}

} // namespace troupe::data

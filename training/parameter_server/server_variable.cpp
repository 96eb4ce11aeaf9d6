#include "troupe/training/parameter_server/server_variable.hpp"

#include "troupe/strategies/parameter_server/row_routing.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using parameter_server::part_change;

/// Returns the elements of a tensor, which must be on the CPU.
std::span<const std::byte> bytes_of(const tensor& x) {
  return {x.raw(), x.bytes()};
}
std::span<std::byte> bytes_of(tensor& x) {
  return {x.mutable_address(), x.bytes()};
}

/// Returns ids of rows as int64.
tensor numbers(const tensor& ids, const std::string& variable) {
  if (ids.type() != dtype::int32 && ids.type() != dtype::int64)
    throw std::invalid_argument("ids of rows of \"" + variable + "\" are "
                                + to_string(ids.spec())
                                + "; use int32 or int64");
  return ids.as(dtype::int64);
}

/// Returns a tensor whose elements no other handle can change.
tensor owned(tensor&& x) {
  x = std::move(x).with_trace(0);
  return x.unique() && !x.is_read_only() ? std::move(x) : x.clone();
}

/// True if an element of an integer type can be this number.
template <class T>
bool is_value(double x) {
  // The first number above all elements is a power of 2.
  constexpr auto end = -static_cast<double>(std::numeric_limits<T>::min());
  return x >= -end && x < end && std::trunc(x) == x;
}

std::string text_of(double x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

shape with_rows(const shape& dims, std::int64_t rows) {
  return dims.with_extent(0, rows);
}

} // namespace

const std::string& server_variable::name() const {
  return impl_->name;
}

const tensor_spec& server_variable::spec() const {
  return impl_->spec;
}

bool server_variable::is_table() const {
  return impl_->is_table;
}

const parameter_server::row_sharding& server_variable::sharding() const {
  return impl_->sharding;
}

const std::vector<std::uint32_t>& server_variable::servers() const {
  return impl_->shards;
}

tensor join_parts(const tensor_spec& whole, std::vector<tensor> parts) {
  if (parts.size() == 1)
    return std::move(parts.front());
  tensor out{whole};
  auto to = bytes_of(out);
  for (const auto& part : parts) {
    std::memcpy(to.data(), part.raw(), part.bytes());
    to = to.subspan(part.bytes());
  }
  return out;
}

tensor server_variable::value() const {
  std::vector<parameter_servers::read> all;
  for (const auto& part : impl_->parts)
    all.push_back({part, {}});
  // A part of a server in this process is not copied.
  return join_parts(impl_->spec, impl_->servers->pull(*impl_, all)).read_only();
}

tensor server_variable::lookup(const tensor& ids) const {
  if (spec().dims.rank() == 0)
    throw std::invalid_argument("lookup: the variable \"" + name()
                                + "\" is a scalar and has no rows");
  const auto rows = numbers(ids, name());
  // Checks the ids, with their positions in the list.
  static_cast<void>(parameter_server::route(impl_->sharding, name(),
                                            rows.data<std::int64_t>()));
  std::vector<std::int64_t> extents(ids.dims().begin(), ids.dims().end());
  extents.insert(extents.end(), spec().dims.begin() + 1, spec().dims.end());
  tensor out{shape{extents}, spec().type};
  const auto asked = parameter_server::distinct(rows.data<std::int64_t>());
  const auto found = pull_rows(asked.rows);
  parameter_server::gather_rows(bytes_of(found), asked.positions,
                                parameter_server::row_bytes(spec()),
                                bytes_of(out));
  return out;
}

/// Returns rows, of which none occurs twice.
tensor server_variable::pull_rows(std::span<const std::int64_t> rows) const {
  const auto routed = parameter_server::route(impl_->sharding, name(), rows);
  tensor out{with_rows(spec().dims, std::int64_t(rows.size())), spec().type};
  std::vector<std::uint32_t> wanted;
  std::vector<parameter_servers::read> parts;
  for (std::uint32_t i = 0; i < routed.shards(); ++i) {
    const auto of_part = routed.rows(i);
    if (of_part.empty())
      continue;
    wanted.push_back(i);
    parts.push_back(
      {impl_->parts[i],
       tensor::of<std::int64_t>({std::int64_t(of_part.size())}, of_part)});
  }
  const auto values = impl_->servers->pull(*impl_, parts);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    parameter_server::scatter_rows(
      bytes_of(values[i]), routed.positions(wanted[i]),
      parameter_server::row_bytes(spec()), bytes_of(out));
  return out;
}

void server_variable::assign(tensor x) const {
  change_all(part_change::kind::assign, std::move(x));
}

void server_variable::assign_add(tensor x) const {
  change_all(part_change::kind::add, std::move(x));
}

void server_variable::assign_sub(tensor x) const {
  change_all(part_change::kind::subtract, std::move(x));
}

void server_variable::scatter_update(const tensor& ids,
                                     const tensor& values) const {
  change_rows(part_change::kind::assign, ids, values);
}

void server_variable::scatter_add(const tensor& ids,
                                  const tensor& values) const {
  change_rows(part_change::kind::add, ids, values);
}

void server_variable::scatter_sub(const tensor& ids,
                                  const tensor& values) const {
  change_rows(part_change::kind::subtract, ids, values);
}

void server_variable::scatter_min(const tensor& ids,
                                  const tensor& values) const {
  change_rows(part_change::kind::minimum, ids, values);
}

void server_variable::scatter_max(const tensor& ids,
                                  const tensor& values) const {
  change_rows(part_change::kind::maximum, ids, values);
}

tensor server_variable::full(double x) const {
  const auto type = spec().type;
  if ((type == dtype::int32 && !is_value<std::int32_t>(x))
      || (type == dtype::int64 && !is_value<std::int64_t>(x)))
    throw std::invalid_argument("the variable \"" + name() + "\" is "
                                + to_string(spec()) + ", and has no element "
                                + text_of(x) + "; give a whole number that "
                                + std::string{to_string(type)} + " has");
  return tensor::full(spec().dims, x, spec().type);
}

void server_variable::change_all(part_change::kind what, tensor x) const {
  change({.what = what, .all = std::move(x)});
}

void server_variable::change_rows(part_change::kind what, const tensor& ids,
                                  const tensor& values) const {
  const auto rows = numbers(ids, name());
  if (spec().dims.rank() == 0 || ids.dims().rank() != 1
      || values.dims().rank() != spec().dims.rank()
      || values.dims() != with_rows(spec().dims, ids.dims().front())
      || values.type() != spec().type)
    throw std::invalid_argument(
      "rows " + to_string(ids.spec()) + " of variable \"" + name() + "\", "
      + to_string(spec()) + ", cannot have the values "
      + to_string(values.spec()));
  // Checks the ids too.
  static_cast<void>(parameter_server::route(impl_->sharding, name(),
                                            rows.data<std::int64_t>()));
  change({.what = what,
          .rows = parameter_server::row_list{spec().dims, rows.clone(),
                                             values.detach().clone()}});
}

/// Makes the same change of all parts, each with its rows.
void server_variable::change(part_change what) const {
  if (!what.has_operand()) {
    std::vector<parameter_servers::change_of_part> changes;
    for (const auto& part : impl_->parts)
      changes.push_back({part, what});
    return impl_->servers->change(*impl_, std::move(changes));
  }
  const auto given = what.rows ? tensor_spec{what.rows.dims(), what.rows.type()}
                               : what.all.spec();
  if (given != spec())
    throw std::invalid_argument(
      std::string{to_string(what.what)} + ": variable \"" + name() + "\" is "
      + to_string(spec()) + ", the value " + to_string(given));
  if (what.all)
    what.all = owned(std::move(what.all));
  const auto& parts = impl_->parts;
  std::vector<parameter_servers::change_of_part> changes;
  if (parts.size() == 1) {
    changes.push_back({parts.front(), std::move(what)});
    return impl_->servers->change(*impl_, std::move(changes));
  }
  if (what.all) {
    for (std::uint32_t i = 0; i < parts.size(); ++i) {
      const auto rows = impl_->sharding.range_of(i);
      auto one = what;
      one.all = what.all.slice(rows.begin, rows.end);
      changes.push_back({parts[i], std::move(one)});
    }
    return impl_->servers->change(*impl_, std::move(changes));
  }
  const auto routed = parameter_server::route(
    impl_->sharding, name(), what.rows.indices().data<std::int64_t>());
  const auto row_bytes = parameter_server::row_bytes(spec());
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    const auto rows = routed.rows(i);
    // All parts of a table count the changes, and the steps of an optimizer.
    if (rows.empty() && !impl_->is_table
        && what.what != part_change::kind::contribute)
      continue;
    const auto count = static_cast<std::int64_t>(rows.size());
    tensor values{with_rows(spec().dims, count), spec().type};
    parameter_server::gather_rows(bytes_of(what.rows.rows()),
                                  routed.positions(i), row_bytes,
                                  bytes_of(values));
    auto one = what;
    one.rows = parameter_server::row_list{
      with_rows(spec().dims, impl_->sharding.range_of(i).size()),
      tensor::of<std::int64_t>({count}, rows), values};
    changes.push_back({parts[i], std::move(one)});
  }
  if (!changes.empty())
    impl_->servers->change(*impl_, std::move(changes));
}

} // namespace troupe

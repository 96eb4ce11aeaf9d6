#pragma once

#include "troupe/strategies/parameter_server/row_sharding.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

class parameter_servers;

/// A variable on parameter servers (`parameter_server_strategy`). A handle:
/// copies refer to the same variable. Any thread may use it.
///
/// In a closure, a change takes place when the closure has ended, and a read
/// returns the current value with the changes that the closure has made.
/// Outside of closures, a change takes place before the function returns.
///
/// Each change throws std::invalid_argument if the shape or dtype of the value
/// is not that of the variable. All functions throw `job_error` if a server
/// does not answer in time. They throw std::logic_error that names the variable
/// if it was removed, and in a closure of a coordinator of another strategy.
///
/// A closure is what its worker's thread executes. A thread that a closure has
/// started is outside of closures: its changes take place at once, and stay if
/// the closure throws.
class server_variable {
public:
  const std::string& name() const;
  const tensor_spec& spec() const;
  /// True: `parameter_server_strategy::make_table` has made it.
  bool is_table() const;
  /// Says which part has which rows.
  const parameter_server::row_sharding& sharding() const;
  /// Returns the index of the server of each part.
  const std::vector<std::uint32_t>& servers() const;

  /// Returns the value. Later changes of the variable do not change it. It may
  /// share its elements with the server, so it is read-only
  /// (`tensor::read_only`); its clone can be written.
  /// @errors throws `job_error` for a part of a table that has more than 1 GiB.
  /// @cost no copy if the variable has one part. A table makes all its rows.
  tensor value() const;

  /// Returns some rows. A row that occurs several times is asked for once.
  /// @shape ids [m...] int32 or int64; returns [m..., d...] of [n, d...]
  /// @errors throws std::out_of_range for an id that is no row, and
  ///         std::invalid_argument for a scalar.
  tensor lookup(const tensor& ids) const;

  /// Sets, increases or decreases all elements.
  /// @cost a copy of `x` unless the caller gives its only handle away.
  void assign(tensor x) const;
  void assign_add(tensor x) const;
  void assign_sub(tensor x) const;
  /// The same number for all elements.
  /// @errors throws std::invalid_argument that names the number if the variable
  ///         is int32 or int64, and has no such value.
  void assign(double x) const { assign(full(x)); }
  void assign_add(double x) const { assign_add(full(x)); }
  void assign_sub(double x) const { assign_sub(full(x)); }

  /// Changes some rows of a variable of any dtype. If a row occurs several
  /// times, its changes take place one after the other.
  /// @shape ids [m] int32 or int64; values [m, d...] of [n, d...]
  /// @errors throws std::out_of_range for an id that is no row.
  void scatter_update(const tensor& ids, const tensor& values) const;
  void scatter_add(const tensor& ids, const tensor& values) const;
  void scatter_sub(const tensor& ids, const tensor& values) const;
  void scatter_min(const tensor& ids, const tensor& values) const;
  void scatter_max(const tensor& ids, const tensor& values) const;

  /// For the library's own use. Makes the same change of all parts.
  void change(parameter_server::part_change what) const;

  struct impl;
  explicit server_variable(std::shared_ptr<const impl> x)
    : impl_{std::move(x)} {}
  const std::shared_ptr<const impl>& state() const { return impl_; }

private:
  tensor full(double x) const;
  tensor pull_rows(std::span<const std::int64_t> rows) const;
  void change_all(parameter_server::part_change::kind what, tensor x) const;
  void change_rows(parameter_server::part_change::kind what, const tensor& ids,
                   const tensor& values) const;

  std::shared_ptr<const impl> impl_;
};

/// Returns the whole of a variable whose parts are rows in their order. Shares
/// the elements if there is one part.
tensor join_parts(const tensor_spec& whole, std::vector<tensor> parts);

} // namespace troupe

#pragma once

#include "troupe/models/table_source.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/parameter_server/server_variable.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace troupe {

/// A parameter of a network that is a table on parameter servers.
struct server_table {
  std::size_t parameter = 0; ///< Number among those of the network.
  server_variable values;
};

/// The rows of tables that one forward pass reads. Each is pulled from the
/// servers once, and its gradient is the sum over its occurrences, in their
/// order.
class pulled_tables : public models::table_source {
public:
  /// Returns rows of a table, [m, d...].
  /// @param table index among the tables.
  /// @param rows  ascending, none twice.
  using reader = std::function<tensor(std::size_t table,
                                      const std::vector<std::int64_t>& rows)>;

  /// Reads with `server_variable::lookup`.
  /// @param tables must outlive this object.
  explicit pulled_tables(std::span<const server_table> tables);
  pulled_tables(std::span<const server_table> tables, reader read)
    : tables_{tables}, reader_{std::move(read)} {}

  /// @errors also `job_error` if a server does not answer.
  tensor lookup(std::size_t parameter, const tensor& rows) override;

  /// Computes the gradients of a loss, as `tape::gradient_into_variables` does,
  /// and those of the tables.
  /// @returns by table: the gradient of the rows that were read.
  parameter_gradients
  gradient_into_variables(tape& from, const tensor& loss,
                          std::span<const variable> variables) const;

private:
  /// What one call has read.
  struct read {
    std::size_t table;
    std::vector<std::int64_t> numbers; ///< Of the rows, ascending.
    parameters rows;                   ///< A table that has these rows only.
  };

  std::span<const server_table> tables_;
  reader reader_;
  std::vector<read> reads_;
};

} // namespace troupe

#pragma once

#include "troupe/strategies/parameter_server/table_part.hpp"
#include "troupe/tests/strategies/random_job.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::parameter_server {

/// A table of random shape and rules, on some shards. Workers send changes and
/// reads of random rows, and messages are lost, late, repeated and reordered.
/// So the rows of a table are touched in another order in each job. The
/// oracles:
///
///   rows      a read returns the bits that a `stored_part` of this row alone
///             has after the same changes. It begins with the row of the dense
///             variable that the initialiser fills as a whole
///   slots     the same for the slots of the optimizers
///   excerpt   an excerpt with a change has the rows that the part has after it
///   snapshot  a part that is saved and restored goes on in the same way
///   memory    a part keeps no row that was not changed, and without
///             `max_idle_changes` all that were
class random_table_job : public random_job {
public:
  explicit random_table_job(std::uint64_t seed);

  std::string run() override;

private:
  /// A row by itself.
  struct row_oracle {
    std::optional<stored_part> value; ///< None: the row is not kept.
    std::uint32_t touches = 0;        ///< Gradients before it is kept.
    std::uint64_t last = 0;           ///< Change that has touched it.
  };
  struct shard {
    table_part part;
    row_range range;
    std::vector<row_oracle> rows;
    std::uint64_t changes = 0;
    std::map<std::uint32_t, std::uint64_t> steps; ///< By optimizer.
  };

  std::string state_of(std::uint64_t process) const override;
  tensor random_values(const shape& dims);
  part_change random_change(const shard& at);
  void send(std::uint32_t worker);
  void change(shard& at, const part_change& what);
  void change_oracle(shard& at, const part_change& what);
  void change_row(shard& at, std::size_t row, const part_change& what);
  /// The row is kept from now on.
  stored_part& keep(shard& at, std::size_t row);
  bool is_kept(const shard& at, std::size_t row) const;
  tensor expected_row(const shard& at, std::size_t row) const;
  void restore(shard& at);
  void read(const shard& at, std::vector<std::int64_t> rows);
  void check_all(const shard& at);

  shape dims_;
  table_rules rules_;
  tensor initial_; ///< Of the whole table.
  std::vector<update_rule> optimizers_;
  std::vector<shard> shards_;
  std::uint64_t left_ = 0; ///< Messages that the workers still send.
};

} // namespace troupe::parameter_server

#include "troupe/training/parameter_server/pulled_tables.hpp"

#include "troupe/strategies/parameter_server/row_routing.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

namespace {

tensor vector_of(const std::vector<std::int64_t>& xs) {
  return tensor::of<std::int64_t>({std::int64_t(xs.size())}, xs);
}

void check_rows(const tensor& rows, const server_variable& table) {
  const auto count = table.spec().dims.front();
  for (const auto row : rows.data<std::int64_t>())
    if (row < 0 || row >= count)
      throw std::out_of_range(
        "lookup: row " + std::to_string(row) + " of the table \"" + table.name()
        + "\", which has " + std::to_string(count) + " rows");
}

} // namespace

pulled_tables::pulled_tables(std::span<const server_table> tables)
  : pulled_tables{
    tables, [tables](std::size_t table, const std::vector<std::int64_t>& rows) {
      return tables[table].values.lookup(vector_of(rows));
    }} {}

tensor pulled_tables::lookup(std::size_t parameter, const tensor& rows) {
  const auto found =
    std::ranges::find(tables_, parameter, &server_table::parameter);
  if (found == tables_.end())
    throw std::logic_error("parameter " + std::to_string(parameter)
                           + " is not a table");
  check_rows(rows, found->values);
  auto asked = parameter_server::distinct(rows.data<std::int64_t>());
  const auto table = static_cast<std::size_t>(found - tables_.begin());
  const auto values = reader_(table, asked.rows);
  parameters pulled{{{found->values.name(), values.dims(), true}}};
  pulled.values()
    .range(0, values.size())
    .copy_from(values.reshaped({std::int64_t(values.size())}));
  tensor positions{rows.spec()};
  std::ranges::copy(asked.positions,
                    positions.mutable_data<std::int64_t>().begin());
  auto out = embedding_lookup(pulled.variables()[0].value(), positions);
  reads_.push_back({table, std::move(asked.rows), std::move(pulled)});
  return out;
}

parameter_gradients pulled_tables::gradient_into_variables(
  tape& from, const tensor& loss, std::span<const variable> variables) const {
  std::vector<variable> pulled;
  for (const auto& one : reads_)
    pulled.push_back(one.rows.variables()[0]);
  parameter_gradients local(reads_.size());
  from.gradient_into_variables(loss, variables, pulled, local);
  parameter_gradients out;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const auto& spec = tables_[t].values.spec();
    std::vector<sparse_rows> parts{sparse_rows::zeros(spec)};
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      if (reads_[i].table != t)
        continue;
      const auto& rows = local[i].rows();
      std::vector<std::int64_t> numbers;
      for (const auto row : rows.indices().data<std::int64_t>())
        numbers.push_back(reads_[i].numbers[static_cast<std::size_t>(row)]);
      parts.push_back({spec.dims, vector_of(numbers), rows.rows()});
    }
    out.push_back(parts.size() == 2 ? parts[1] : concat(parts));
  }
  return out;
}

} // namespace troupe

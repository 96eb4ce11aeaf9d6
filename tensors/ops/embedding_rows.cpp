#include "troupe/tensors/ops/embedding_rows.hpp"

#include <cstdint>

namespace troupe {

std::size_t ops::elements_of_row(const shape& table) {
  return table.axes(1, table.rank()).elements();
}

void ops::embedding_lookup_backward(op_call& c) {
  if (!c.wants_rows(0) && !c.wants(0))
    return;
  const auto& table = c.in[0].dims();
  // The gradient outlives the ids, which the caller may change.
  const auto ids =
    c.in[1].type() == dtype::int64 ? c.in[1].clone() : c.in[1].as(dtype::int64);
  const shape count{static_cast<std::int64_t>(ids.size())};
  const sparse_rows rows{
    table, ids.reshaped(count),
    c.grad_out[0].reshaped(table.with_extent(0, count.front()))};
  if (c.wants_rows(0)) {
    c.grad_rows[0] = rows;
    return;
  }
  if (!c.accumulates(0))
    c.grad_in[0].set_zero();
  rows.add_to(c.grad_in[0]);
}

} // namespace troupe

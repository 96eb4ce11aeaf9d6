#include "troupe/tensors/ops/embedding_lookup.hpp"

#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/ops/check.hpp"
#include "troupe/tensors/ops/embedding_rows.hpp"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

op_outputs infer(std::span<const tensor_spec> in, const op_options&) {
  const auto& table = in[0].dims;
  const auto& ids = in[1].dims;
  constexpr auto max_rank = shape::max_rank;
  ops::require(table.rank() > 0 && ids.rank() + table.rank() - 1 <= max_rank,
               "a table with rows, and ids", in);
  small_list<std::int64_t, max_rank> extents;
  for (std::size_t i = 0; i < ids.rank(); ++i)
    extents.push_back(ids[i]);
  for (std::size_t i = 1; i < table.rank(); ++i)
    extents.push_back(table[i]);
  return {shape{std::span<const std::int64_t>{extents.data(), extents.size()}},
          in[0].type};
}

/// Throws if an id is not a row of the table.
void check_ids(std::span<const std::int64_t> ids, std::int64_t rows) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= rows)
      throw std::out_of_range("embedding_lookup: id " + std::to_string(i)
                              + " is " + std::to_string(ids[i])
                              + ", but the table has " + std::to_string(rows)
                              + " rows");
}

void forward(op_call& c) {
  const auto& table = c.in[0];
  const auto list = c.in[1].as(dtype::int64);
  const auto ids = list.data<std::int64_t>();
  check_ids(ids, table.dims().front());
  const auto row = ops::elements_of_row(table.dims());
  const auto bytes = row * size_of(table.type());
  const auto* const from = table.raw();
  auto* const to = c.out[0].raw();
  if (bytes == 0)
    return;
  for_ranges(
    ids.size(), ids.size() * row, [&](std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i)
        std::memcpy(to + i * bytes, from + std::size_t(ids[i]) * bytes, bytes);
    });
}

const std::array inputs{
  op_input{.has_sparse_gradient = true},
  op_input{.dtypes = {dtype::int32, dtype::int64}, .differentiable = false},
};

constexpr std::array kernels{
  op_kernels{dtype::float32, forward, ops::embedding_lookup_backward},
  op_kernels{dtype::float64, forward, ops::embedding_lookup_backward},
  op_kernels{dtype::bfloat16, forward, ops::embedding_lookup_backward},
};

const std::array cases{
  op_case{{{4, 3}, {5}}, {}, 0, 4},       op_case{{{3, 2}, {2, 7}}, {}, 0, 3},
  op_case{{{6}, {3, 1, 2}}, {}, 0, 6},    op_case{{{2, 2, 3}, {}}, {}, 0, 2},
  op_case{{{5, 4}, {0}}, {}, 0, 5},       op_case{{{5, 0}, {3}}, {}, 0, 5},
  op_case{{{9, 33}, {170, 7}}, {}, 0, 9}, op_case{{{7, 16}, {40}}, {}, 0, 7},
};

} // namespace

const op ops::embedding_lookup{
  .name = "embedding_lookup",
  .inputs = inputs,
  .infer = infer,
  .kernels = kernels,
  .cases = cases,
  .formula = "x[ids]",
};

tensor embedding_lookup(const tensor& table, const tensor& ids) {
  return apply(ops::embedding_lookup, {table, ids});
}

} // namespace troupe

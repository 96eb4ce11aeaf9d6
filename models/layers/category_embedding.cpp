#include "troupe/models/layers/category_embedding.hpp"

#include "troupe/tensors/ops/concat.hpp"
#include "troupe/tensors/ops/reshape.hpp"

#include <stdexcept>

namespace troupe::models {

namespace {

/// Returns the row of the table for each category of each example.
/// @param rows rows of each category.
tensor table_rows(const tensor& categories, std::int64_t rows) {
  const auto wide = categories.as(dtype::int64);
  const auto from = wide.data<std::int64_t>();
  tensor out{wide.dims(), dtype::int64};
  const auto to = out.mutable_data<std::int64_t>();
  const auto features = static_cast<std::size_t>(wide.dims()[1]);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0 || from[i] >= rows)
      throw std::out_of_range(
        "category " + std::to_string(i % features) + " of example "
        + std::to_string(i / features) + " is " + std::to_string(from[i])
        + ", but a category_embedding layer has " + std::to_string(rows)
        + " rows for each category; number the categories from 0 on, or give "
          "the layer more rows");
    to[i] = static_cast<std::int64_t>(i % features) * rows + from[i];
  }
  return out;
}

} // namespace

void category_embedding_layer::visit_settings(layer_settings& s) {
  s.integer("rows", settings.rows, {.required = true});
  s.integer("units", settings.units, {.required = true});
  s.initial("embeddings_initializer", settings.embeddings_initializer);
}

shape category_embedding_layer::build(const shape& input, builder& b) const {
  if (input.rank() != 1)
    b.refuse("takes examples of one axis, but its input is " + to_string(input)
             + "; put a \"flatten\" before it");
  if (b.categories() == 0)
    b.refuse("needs categories, but the model has none; give their number, as "
             "in \"categories\": 26");
  b.table("embeddings", b.categories() * settings.rows, settings.units,
          settings.embeddings_initializer);
  return {b.categories() * settings.units + input[0]};
}

tensor category_embedding_layer::forward(const tensor& x,
                                         const layer_scope& scope) const {
  const auto rows_of_batch = table_rows(scope.categories(), settings.rows);
  const auto found = scope.lookup(0, rows_of_batch);
  const auto n = x.dims().front();
  const auto embedded =
    troupe::reshape(found, {n, rows_of_batch.dims()[1] * settings.units});
  return troupe::concat({embedded.as(x.type()), x}, 1);
}

} // namespace troupe::models

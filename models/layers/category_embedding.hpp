#pragma once

#include "troupe/models/layer.hpp"

namespace troupe::models {

class category_embedding_layer;

/// Settings of a layer that looks up a vector for each category of an example,
/// and appends its input to them. Each of the f categories of the model has
/// `rows` rows of its own, one behind another in one table. Category k of an
/// example is row k * rows + (its number).
/// @shape input      [in]
/// @shape embeddings [f * rows, units]
/// @returns [f * units + in]
/// @errors `forward` throws std::out_of_range that names the example and the
///         category if a number is not in [0, rows).
struct category_embedding {
  using layer_type = category_embedding_layer;

  std::int64_t rows = 0;  ///< Rows of each category.
  std::int64_t units = 0; ///< Elements of a row.
  initializer embeddings_initializer{"uniform"};
  std::string name{}; ///< As `layer::name`.
};

class category_embedding_layer : public layer {
public:
  category_embedding_layer() = default;
  explicit category_embedding_layer(category_embedding x)
    : layer{x.name}, settings{std::move(x)} {}

  std::string_view type() const override { return "category_embedding"; }
  void visit_settings(layer_settings& s) override;
  shape build(const shape& input, builder& b) const override;
  tensor forward(const tensor& x, const layer_scope& scope) const override;

  category_embedding settings;
};

} // namespace troupe::models

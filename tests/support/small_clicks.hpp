#pragma once

#include "troupe/data/sources/clicks.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/layers.hpp"

#include <cstdint>

namespace troupe::test {

/// Shape of the examples of `uneven_clicks`.
inline constexpr std::int64_t click_rows = 50, click_categories = 4,
                              click_numbers = 3;

/// Batches of 50 and a last one of 3, so some of five replicas have no example.
inline data::dataset uneven_clicks() {
  static const auto all = data::clicks({.examples = 203,
                                        .numbers = click_numbers,
                                        .categories = click_categories,
                                        .rows = click_rows});
  return all.shuffle().batch(50);
}

/// Returns a model of these clicks.
/// @param units elements of a row of its table.
template <class Embedding = models::category_embedding>
models::model_description click_model(std::int64_t units) {
  return {.name = "small",
          .input = {click_numbers},
          .layers =
            models::stack(Embedding{click_rows, units},
                          models::dense{8, activation::relu}, models::dense{1}),
          .categories = click_categories};
}

} // namespace troupe::test

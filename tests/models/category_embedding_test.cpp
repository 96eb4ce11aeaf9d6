#include "troupe/models/layers.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/error_text.hpp"

#include <gtest/gtest.h>

namespace troupe::models {
namespace {

using test::text_of;

/// Three categories with four rows of two elements each, and two numbers.
model_description small() {
  return {.name = "small",
          .input = {2},
          .layers = stack(category_embedding{4, 2}, dense{1}),
          .categories = 3};
}

const auto numbers = tensor::of<float>({2, 2}, {5, 6, 7, 8});
const auto categories = tensor::of<std::int32_t>({2, 3}, {0, 3, 1, 2, 2, 2});

/// Parameters of a network whose table holds 0, 1, 2, ...
struct counted_parameters {
  explicit counted_parameters(const network& net) : all{net.parameters()} {
    net.initialize(all, 1);
    auto table = all.variables()[0].value().detach();
    for (std::size_t i = 0; i < table.size(); ++i)
      table.mutable_data<float>()[i] = float(i);
  }
  parameters all;
};

TEST(CategoryEmbedding, AppendsTheNumbersToTheRowsOfTheCategories) {
  const network net{{.name = "m",
                     .input = {2},
                     .layers = stack(category_embedding{4, 2}),
                     .categories = 3}};
  EXPECT_EQ(net.output(), (shape{8}));
  const counted_parameters own{net};
  // Row k * 4 + c of the table holds 2 * (k * 4 + c) and the next number.
  const auto wanted = tensor::of<float>({2, 8}, {0, 1, 14, 15, 18, 19, 5, 6, //
                                                 4, 5, 12, 13, 20, 21, 7, 8});
  const auto& v = own.all.variables();
  EXPECT_TRUE(same_bits(net.forward({numbers, categories}, v), wanted));
  EXPECT_TRUE(
    same_bits(net.forward({numbers, categories.as(dtype::int64)}, v), wanted));
  EXPECT_EQ(
    net.forward({numbers.slice(0, 0), categories.slice(0, 0)}, v).dims(),
    (shape{0, 8}));
}

TEST(CategoryEmbedding, DeclaresATable) {
  const network net{small()};
  const auto& all = net.parameters();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "category_embedding_1/embeddings");
  EXPECT_EQ(all[0].dims, (shape{12, 2}));
  EXPECT_TRUE(all[0].is_table);
  EXPECT_FALSE(all[1].is_table);
  EXPECT_FALSE(all[2].is_table);
}

/// The gradient has the rows that the batch has read, also in a model that
/// computes in bfloat16.
TEST(CategoryEmbedding, HasASparseGradient) {
  for (const auto precision : {precision::float32, precision::bf16}) {
    const network net{small(), precision};
    const counted_parameters own{net};
    const auto& v = own.all.variables();
    tape t;
    const auto g = t.sparse_gradients(net.forward({numbers, categories}, v), v);
    ASSERT_TRUE(g[0].is_sparse());
    EXPECT_TRUE(same_bits(g[0].rows().indices(),
                          tensor::of<std::int64_t>({6}, {0, 2, 6, 7, 9, 10})));
    EXPECT_EQ(g[0].type(), dtype::float32);
    EXPECT_FALSE(g[1].is_sparse());
    // Each row is read once, so its gradient is the weight of its elements.
    const auto kernel =
      v[1].value().as(type_of(precision)).as(dtype::float32).detach();
    const auto weight = [&](std::size_t i) { return kernel.data<float>()[i]; };
    const auto rows = g[0].rows().rows().data<float>();
    const std::size_t category_of_row[]{0, 0, 1, 1, 2, 2};
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_EQ(rows[2 * i + k], weight(2 * category_of_row[i] + k));
  }
}

TEST(CategoryEmbedding, ModelsWithCategoriesAreWrittenAndRead) {
  const auto text = to_json_text(small());
  EXPECT_NE(text.find("\"categories\": 3"), std::string::npos) << text;
  const auto again = parse(text, "t");
  EXPECT_EQ(again.categories, 3);
  EXPECT_EQ(to_json_text(again), text);
  EXPECT_EQ(to_json_text(mlp()).find("categories"), std::string::npos);
}

TEST(CategoryEmbedding, RejectsExamplesWithOtherCategories) {
  const network net{small()};
  const counted_parameters own{net};
  const auto says = [&](const tensor& given) {
    return text_of([&] { net.forward({numbers, given}, own.all.variables()); });
  };
  const std::string takes =
    "the model \"small\" takes categories [2, 3], int32 "
    "or int64, but these examples have ";
  EXPECT_EQ(says({}), takes + "none; give the batch a tensor \"categories\"");
  EXPECT_EQ(says(categories.slice(0, 1)),
            takes + "int32[1, 3]; give the categories of each example");
  EXPECT_EQ(says(tensor::zeros({2, 3})),
            takes + "float32[2, 3]; give the categories of each example");
  for (const std::int32_t bad : {-1, 4})
    EXPECT_EQ(says(tensor::of<std::int32_t>({2, 3}, {0, 0, 0, 0, bad, 0})),
              "category 1 of example 1 is " + std::to_string(bad)
                + ", but a category_embedding layer has 4 rows for each "
                  "category; number the categories from 0 on, or give the "
                  "layer more rows");
  const network plain{mlp()};
  const parameters of_plain{plain.parameters()};
  EXPECT_EQ(text_of([&] {
              plain.forward({tensor::zeros({2, 28, 28, 1}), categories},
                            of_plain.variables());
            }),
            "the model \"mlp\" takes no categories, but these examples have "
            "some: int32[2, 3]; leave them out");
}

TEST(CategoryEmbedding, RejectsModelsThatCannotBeBuilt) {
  const auto says = [](const std::string& rest) {
    return text_of(
      [&] { parse(R"({"version": 1, "name": "m", )" + rest + "}", "t"); });
  };
  const std::string layer =
    R"("layers": [{"type": "category_embedding", "rows": 16777216, "units": 8}])";
  EXPECT_EQ(says(R"("input": [2], )" + layer),
            "t: layers[0] (category_embedding) needs categories, but the model "
            "has none; give their number, as in \"categories\": 26");
  EXPECT_EQ(says(R"("input": [2, 2], "categories": 1, )" + layer),
            "t: layers[0] (category_embedding) takes examples of one axis, but "
            "its input is [2, 2]; put a \"flatten\" before it");
  EXPECT_EQ(says(R"("input": [2], "categories": 65537, )" + layer),
            "t: categories is 65537; it must be an integer from 1 to 65536");
  EXPECT_EQ(says(R"("input": [2], "categories": 65536, )" + layer),
            "t: layers[0] (category_embedding) cannot have the parameter "
            "embeddings of shape [1099511627776, 8]: a model has at most "
            "2147483648 parameters; make its layers smaller");
}

TEST(WideDeep, HasTheShapesOfTheClickModel) {
  const network net{wide_deep()};
  EXPECT_EQ(net.input(), (shape{13}));
  EXPECT_EQ(net.categories(), 26);
  EXPECT_EQ(net.output(), (shape{1}));
  std::int64_t elements = 0;
  for (const auto& x : net.parameters())
    elements += std::int64_t(x.dims.elements());
  EXPECT_EQ(net.parameters()[0].dims, (shape{2'600'000, 16}));
  EXPECT_EQ(net.parameters()[1].dims, (shape{429, 256}));
  EXPECT_EQ(net.parameters()[3].dims, (shape{256, 128}));
  EXPECT_EQ(elements, 41'743'105);
}

} // namespace
} // namespace troupe::models

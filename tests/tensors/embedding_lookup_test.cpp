#include "error_of.hpp"
#include "troupe/tensors/ops/add_in_place.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <array>

namespace troupe {
namespace {

const tensor table = tensor::of<float>({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});

tensor ids(std::initializer_list<std::int32_t> list) {
  return tensor::of<std::int32_t>({std::int64_t(list.size())}, list);
}

bool same(const sparse_rows& x, std::initializer_list<std::int64_t> indices,
          std::initializer_list<float> elements) {
  const auto count = std::int64_t(indices.size());
  return x.dims() == table.dims()
         && same_bits(x.indices(), tensor::of<std::int64_t>({count}, indices))
         && same_bits(x.rows(), tensor::of<float>({count, 2}, elements));
}

TEST(EmbeddingLookup, ReturnsRows) {
  const auto y =
    embedding_lookup(table, tensor::of<std::int64_t>({2, 2}, {3, 0, 1, 3}));
  EXPECT_TRUE(
    same_bits(y, tensor::of<float>({2, 2, 2}, {30, 31, 0, 1, 10, 11, 30, 31})));
  EXPECT_TRUE(
    same_bits(embedding_lookup(table, tensor::full({}, 2, dtype::int32)),
              tensor::of<float>({2}, {20, 21})));
  EXPECT_TRUE(
    same_bits(embedding_lookup(table.as(dtype::bfloat16), ids({1})),
              tensor::of<float>({1, 2}, {10, 11}).as(dtype::bfloat16)));
}

TEST(EmbeddingLookup, NamesAnIdThatIsNotARow) {
  for (const std::int32_t bad : {4, -1})
    EXPECT_EQ(error_of([&] {
                embedding_lookup(table, ids({0, bad}));
              }),
              "embedding_lookup: id 1 is " + std::to_string(bad)
                + ", but the table has 4 rows");
  EXPECT_NE(error_of([] {
              embedding_lookup(tensor::full({}, 1), ids({0}));
            }).find("a table with rows, and ids"),
            std::string::npos);
}

TEST(EmbeddingLookup, HasASparseGradient) {
  tape t;
  const auto x = t.watch(table);
  const auto weights = tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto y = embedding_lookup(x, ids({3, 1, 3})) * weights;
  const auto g = t.sparse_gradients(y, std::array{x});
  ASSERT_TRUE(g[0].is_sparse());
  EXPECT_TRUE(same(g[0].rows(), {1, 3}, {3, 4, 6, 8}));
}

TEST(EmbeddingLookup, HasADenseGradientIfThatIsRequested) {
  tape t;
  const auto x = t.watch(table);
  const auto y = embedding_lookup(x, ids({3, 1, 3}));
  EXPECT_TRUE(same_bits(t.gradient(y, std::array{x})[0],
                        tensor::of<float>({4, 2}, {0, 0, 1, 1, 0, 0, 2, 2})));
}

/// The parts are added in the order of the backward pass, which begins with the
/// last lookup.
TEST(EmbeddingLookup, OfOneTableSeveralTimesHasOneSparseGradient) {
  constexpr float big = 0x1p24f;
  tape t;
  const auto x = t.watch(table);
  const auto first = embedding_lookup(x, ids({2, 0})) * 1.0;
  const auto second = embedding_lookup(x, ids({2, 2})) * double(big);
  const auto third = embedding_lookup(x, ids({2, 1})) * -double(2 * big);
  const auto g = t.sparse_gradients(first + second + third, std::array{x});
  ASSERT_TRUE(g[0].is_sparse());
  const float row_2 = ((-2 * big + big) + big) + 1;
  EXPECT_EQ(row_2, 1);
  EXPECT_TRUE(
    same(g[0].rows(), {0, 1, 2}, {1, 1, -2 * big, -2 * big, row_2, row_2}));
}

/// Whichever of the two ops the backward pass reaches first.
TEST(EmbeddingLookup, AndADenseOpHaveADenseGradient) {
  for (const bool lookup_first : {false, true})
    for (const bool reshapes : {false, true}) {
      tape t;
      const auto x = t.watch(table);
      const auto look = [&] {
        return reduce_sum(embedding_lookup(x, ids({1})));
      };
      const auto use = [&] {
        return reduce_sum(reshapes ? reshape(x, {8}) : x * 3.0);
      };
      tensor loss;
      if (lookup_first) {
        const auto a = look();
        loss = a + use();
      } else {
        const auto a = use();
        loss = a + look();
      }
      const auto g = t.sparse_gradients(loss, std::array{x});
      ASSERT_FALSE(g[0].is_sparse());
      const float c = reshapes ? 1 : 3;
      EXPECT_TRUE(
        same_bits(g[0].dense(),
                  tensor::of<float>({4, 2}, {c, c, c + 1, c + 1, c, c, c, c})));
    }
}

/// Input 1 has a dense gradient, and stands between two sparse ones.
TEST(EmbeddingLookup, OfOneTensorAsSeveralInputsOfAnOpIsAdded) {
  static constexpr std::array<op_input, 3> inputs{
    op_input{.has_sparse_gradient = true}, op_input{},
    op_input{.has_sparse_gradient = true}};
  static constexpr op_kernel backward = [](op_call& c) {
    const auto gy = c.grad_out[0];
    for (const std::size_t i : {0u, 2u}) {
      const sparse_rows rows{gy.dims(),
                             tensor::of<std::int64_t>({1}, {std::int64_t(i)}),
                             gy.slice(1, 2)};
      if (c.wants_rows(i))
        c.grad_rows[i] = rows;
      else if (c.wants(i))
        put_gradient(c, i, rows.dense());
    }
    if (c.wants(1))
      put_gradient(c, 1, gy);
  };
  static constexpr op_kernel forward = [](op_call& c) {
    c.out[0].copy_from(c.in[1]);
  };
  static constexpr std::array kernels{
    op_kernels{dtype::float32, forward, backward}};
  const op three{.name = "three",
                 .inputs = inputs,
                 .infer = [](std::span<const tensor_spec> in,
                             const op_options&) -> op_outputs { return in[0]; },
                 .kernels = kernels};
  tape t;
  const auto x = t.watch(table), y = t.watch(table);
  const auto first = apply(three, {y, x, y});
  const auto loss = first + apply(three, {x, x, x});
  const auto g = t.sparse_gradients(loss, std::array{x, y});
  ASSERT_FALSE(g[0].is_sparse());
  EXPECT_TRUE(same_bits(g[0].dense(),
                        tensor::of<float>({4, 2}, {3, 3, 2, 2, 3, 3, 2, 2})));
  ASSERT_TRUE(g[1].is_sparse());
  EXPECT_TRUE(same(g[1].rows(), {0, 2}, {1, 1, 1, 1}));

  // The same when the gradient has rows of another op already.
  tape after;
  const auto z = after.watch(table);
  const auto sum = apply(three, {z, z, z});
  const auto both = sum + reduce_sum(embedding_lookup(z, ids({3})));
  const auto h = after.sparse_gradients(both, std::array{z});
  EXPECT_TRUE(same_bits(h[0].dense(),
                        tensor::of<float>({4, 2}, {2, 2, 1, 1, 2, 2, 9, 9})));
}

/// As other tensors, so that `sparse_gradients` agrees with `gradient`.
TEST(EmbeddingLookup, TheGradientOfTheLossItselfIsOne) {
  for (const bool reads : {false, true}) {
    tape t;
    const auto x = t.watch(table);
    if (reads)
      embedding_lookup(x, ids({1}));
    const auto g = t.sparse_gradients(x, std::array{x});
    EXPECT_TRUE(same_bits(g[0].dense(), tensor::full({4, 2}, 1)));
  }
}

TEST(EmbeddingLookup, ThatDoesNotReachTheLossHasNoRows) {
  for (const bool is_read_densely : {false, true}) {
    tape t;
    const auto x = t.watch(table);
    embedding_lookup(x, ids({1}));
    if (is_read_densely)
      x + 1.0;
    const auto y = t.watch(table);
    const auto g = t.sparse_gradients(y, std::array{x});
    EXPECT_EQ(g[0].is_sparse(), !is_read_densely);
    EXPECT_TRUE(same_bits(g[0].dense(), tensor::zeros({4, 2})));
  }
}

TEST(EmbeddingLookup, ASparseGradientDoesNotChangeWithTheIds) {
  tape t;
  const auto x = t.watch(table);
  auto list = tensor::of<std::int64_t>({2}, {1, 3});
  const auto g = t.sparse_gradients(embedding_lookup(x, list), std::array{x});
  list.mutable_data<std::int64_t>()[0] = 100;
  EXPECT_TRUE(same(g[0].rows(), {1, 3}, {1, 1, 1, 1}));
}

/// An op without kernels for bfloat16 runs those for float32.
TEST(EmbeddingLookup, RowsOfAnotherDtypeAreRoundedOnce) {
  const std::array kernels{
    op_kernels{dtype::float32, ops::embedding_lookup.kernels[0].forward,
               ops::embedding_lookup.kernels[0].backward}};
  auto converting = ops::embedding_lookup;
  converting.kernels = kernels;
  tape t;
  const auto x = t.watch(table.as(dtype::bfloat16));
  const auto weights = tensor::of<float>({3, 2}, {1, 1, 0x1p-8f, 0, 0x1p-8f, 0})
                         .as(dtype::bfloat16);
  const auto y = apply(converting, {x, ids({2, 2, 2})}) * weights
                 + embedding_lookup(x, ids({2, 0, 0})) * 0.0;
  const auto g = t.sparse_gradients(y, std::array{x});
  ASSERT_TRUE(g[0].is_sparse());
  EXPECT_EQ(g[0].type(), dtype::bfloat16);
  EXPECT_EQ(float(g[0].dense().data<bfloat16>()[4]), 1 + 0x1p-7f);
}

TEST(EmbeddingLookup, GradientsOfOtherTensorsAreDense) {
  tape t;
  const auto x = t.watch(table), y = t.watch(table), unused = t.watch(table);
  const auto loss = embedding_lookup(x, ids({})) + y.slice(0, 0);
  const auto g = t.sparse_gradients(loss, std::array{x, y, unused});
  ASSERT_TRUE(g[0].is_sparse());
  EXPECT_EQ(g[0].rows().count(), 0u);
  for (const std::size_t i : {1u, 2u}) {
    ASSERT_FALSE(g[i].is_sparse());
    EXPECT_TRUE(same_bits(g[i].dense(), tensor::zeros({4, 2})));
  }
}

TEST(EmbeddingLookup, GradientsOfVariablesAreSparse) {
  const parameters all{{{"table", {4, 2}}, {"bias", {2}}, {"unused", {3}}}};
  tape t;
  const auto& v = all.variables();
  const auto y = embedding_lookup(v[0].value(), ids({2, 2}))
                 + reshape(v[1].value(), {1, 2}) * 1.0;
  const auto g = t.sparse_gradients(y, v);
  ASSERT_TRUE(g[0].is_sparse());
  EXPECT_TRUE(same(g[0].rows(), {2}, {2, 2}));
  EXPECT_TRUE(same_bits(g[1].dense(), tensor::of<float>({2}, {2, 2})));
  EXPECT_TRUE(same_bits(g[2].dense(), tensor::zeros({3})));
}

TEST(EmbeddingLookup, GradientsOfTablesAreRowsBesideThoseOfOtherVariables) {
  const parameters all{
    {{"table", {4, 2}, true}, {"bias", {2}}, {"unused", {3}, true}, {"c", {}}}};
  const auto& v = all.variables();
  const std::array tables{v[0], v[2]}, others{v[1], v[3]};
  v[3].gradient().mutable_data<float>()[0] = 7;
  tape t;
  const auto y = embedding_lookup(v[0].value(), ids({3, 2, 3}))
                 + reshape(v[1].value(), {1, 2}) * 2.0;
  parameter_gradients rows(2);
  std::vector<std::size_t> completed;
  t.gradient_into_variables(y, others, tables, rows,
                            [&](std::size_t i) { completed.push_back(i); });
  EXPECT_TRUE(same(rows[0].rows(), {2, 3}, {1, 1, 2, 2}));
  EXPECT_EQ(rows[1].rows().count(), 0u);
  EXPECT_EQ(rows[1].rows().dims(), (shape{3}));
  EXPECT_TRUE(same_bits(v[1].gradient(), tensor::of<float>({2}, {6, 6})));
  EXPECT_EQ(v[3].gradient().item<float>(), 0);
  EXPECT_EQ(completed, (std::vector<std::size_t>{1, 0}));
}

TEST(EmbeddingLookup, ATableThatAnotherOpHasReadIsNamed) {
  const parameters all{{{"table", {4, 2}, true}}};
  const auto& v = all.variables();
  tape t;
  const auto y =
    embedding_lookup(v[0].value(), ids({3})) + reduce_sum(v[0].value() * 2.0);
  parameter_gradients rows(1);
  EXPECT_EQ(error_of([&] { t.gradient_into_variables(y, {}, v, rows); }),
            "the gradient of the table table is dense, because an op without a "
            "sparse gradient has read it; read the table by embedding_lookup "
            "only");
  tape other;
  const auto z = embedding_lookup(v[0].value(), ids({3}));
  parameter_gradients none;
  EXPECT_EQ(error_of([&] { other.gradient_into_variables(z, {}, v, none); }),
            "room for 0 gradients of 1 tables");
}

TEST(EmbeddingLookup, InBfloat16HasTheRoundedGradientOfFloat32) {
  const auto weights =
    tensor::of<float>({3, 2}, {1, 1, 0x1p-8f, 2, 0x1p-8f, 3});
  const auto run = [&](dtype type, bool sparse) {
    tape t;
    const auto x = t.watch(table.as(type));
    const auto y = embedding_lookup(x, ids({2, 2, 2})) * weights.as(type);
    return sparse ? t.sparse_gradients(y, std::array{x})[0].dense()
                  : t.gradient(y, std::array{x})[0];
  };
  const auto wide = run(dtype::float32, false);
  for (const bool sparse : {false, true})
    EXPECT_TRUE(
      same_bits(run(dtype::bfloat16, sparse), wide.as(dtype::bfloat16)));
}

TEST(EmbeddingLookup, NeedsAConstantOfIds) {
  tape t;
  const auto x = t.watch(table);
  EXPECT_NE(error_of([&] {
              embedding_lookup(x, t.watch(tensor::zeros({2})));
            }).find("int32 or int64"),
            std::string::npos);
}

} // namespace
} // namespace troupe

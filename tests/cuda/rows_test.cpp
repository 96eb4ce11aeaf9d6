#include "card.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/training/small_jobs.hpp"

#include <cmath>
#include <random>
#include <tuple>

// Sums of rows of tables have the bits of the CPU.

namespace {

using namespace troupe;
using namespace troupe::test;

/// Some rows often, most of them rarely.
tensor draw_ids(std::mt19937& rng, std::size_t count, std::int64_t rows,
                dtype type = dtype::int64) {
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < count; ++i)
    list.push_back(std::int64_t(rng() % (rng() % 4 == 0 ? 3u : 1'000'000u))
                   % rows);
  return tensor::of<std::int64_t>({std::int64_t(count)}, list).as(type);
}

/// The sums of such numbers depend on their order.
tensor draw_numbers(std::mt19937& rng, const shape& dims, dtype type) {
  tensor out{dims};
  for (auto& one : out.mutable_data<float>())
    one = std::ldexp(float(rng() % 2001) / 1000 - 1, int(rng() % 24));
  return out.as(type);
}

struct extents {
  std::size_t count;
  std::int64_t rows, width;
};

/// One part, few parts, and more than one block of the device sorts.
constexpr extents tried[]{{0, 5, 4},
                          {1, 1, 1},
                          {7, 3, 33},
                          {500, 11, 33},
                          {5'000, 100'000, 16},
                          {60'000, 40, 8},
                          {100'003, 70'001, 5},
                          {300, 20, 0}};

constexpr dtype floats[]{dtype::float32, dtype::float64, dtype::bfloat16};

std::string text_of(const extents& e, dtype type) {
  return std::to_string(e.count) + " parts of " + std::to_string(e.rows)
         + " rows of " + std::to_string(e.width) + " "
         + std::string{to_string(type)};
}

sparse_rows draw_rows(std::mt19937& rng, const extents& e, dtype type) {
  const auto ids = draw_ids(rng, e.count, e.rows);
  return {{e.rows, e.width},
          ids,
          draw_numbers(rng, {std::int64_t(e.count), e.width}, type)};
}

sparse_rows on_card(const sparse_rows& x, bool with_indices = true) {
  return {x.dims(), with_indices ? x.indices().to(card) : x.indices(),
          x.rows().to(card)};
}

void expect_same(const sparse_rows& got, const sparse_rows& want) {
  EXPECT_EQ(got.dims(), want.dims());
  EXPECT_EQ(got.indices().device(), device{});
  EXPECT_TRUE(same_bits(got.indices(), want.indices()));
  EXPECT_TRUE(same_bits(got.rows(), want.rows()));
}

TEST_F(OnACard, RowsAreSortedWithTheBitsOfTheCpu) {
  for (const auto& e : tried)
    for (const auto type : floats) {
      SCOPED_TRACE(text_of(e, type));
      std::mt19937 rng{7};
      const auto x = draw_rows(rng, e, type);
      for (const bool with_indices : {true, false}) {
        const auto sorted = on_card(x, with_indices).sorted();
        EXPECT_TRUE(sorted.is_sorted());
        EXPECT_EQ(sorted.rows().device(), card);
        expect_same(sorted, x.sorted());
      }
    }
}

TEST_F(OnACard, RowsAreAddedToATensorWithTheBitsOfTheCpu) {
  for (const auto& e : tried)
    for (const auto type : floats) {
      SCOPED_TRACE(text_of(e, type));
      std::mt19937 rng{8};
      const auto x = draw_rows(rng, e, type);
      auto here = draw_numbers(rng, x.dims(), type), there = here.to(card);
      x.add_to(here);
      on_card(x).add_to(there);
      EXPECT_TRUE(same_bits(there, here));
      EXPECT_TRUE(same_bits(on_card(x).dense(), x.dense()));
      EXPECT_TRUE(same_bits(on_card(x).sorted().dense(), x.sorted().dense()));
    }
}

TEST_F(OnACard, DenormalSumsOfRowsAreFlushedToZero) {
  for (const auto& [type, power] :
       {std::tuple{dtype::float32, -126}, std::tuple{dtype::float64, -1022}}) {
    // Row 0 cancels to a denormal number, row 1 adds two, row 2 is copied.
    const auto unit = std::ldexp(1.0, power);
    const std::vector<double> values{1.5 * unit, 0.25 * unit, 0.5 * unit,
                                     -1.25 * unit, 0.5 * unit};
    const sparse_rows x{{3, 1},
                        tensor::of<std::int64_t>({5}, {0, 1, 2, 0, 1}),
                        tensor::of<double>({5, 1}, values).as(type)};
    expect_same(on_card(x).sorted(), x.sorted());
    EXPECT_TRUE(same_bits(on_card(x).dense(), x.dense()));
  }
}

/// The rows of several lookups are joined before they are added.
TEST_F(OnACard, SparseGradientsHaveTheBitsOfTheCpu) {
  for (const auto type : floats)
    for (const auto id_type : {dtype::int32, dtype::int64})
      for (const bool sparse : {true, false}) {
        std::mt19937 rng{9};
        const auto table = draw_numbers(rng, {301, 24}, type);
        const auto first = draw_ids(rng, 4'000, 301, id_type),
                   second = draw_ids(rng, 70, 301, id_type);
        const auto weights = draw_numbers(rng, {4'000, 24}, type),
                   more = draw_numbers(rng, {70, 24}, type);
        const auto gradient_on = [&](const device& on) {
          tape recording;
          const auto x = recording.watch(table.to(on));
          const auto loss =
            reduce_sum(embedding_lookup(x, first.to(on)) * weights.to(on))
            + reduce_sum(embedding_lookup(x, second.to(on)) * more.to(on));
          return sparse ? recording.sparse_gradients(loss, tensors{x})[0]
                        : parameter_gradient{
                          recording.gradient(loss, tensors{x})[0]};
        };
        const auto got = gradient_on(card), want = gradient_on({});
        EXPECT_EQ(got.is_sparse(), sparse);
        EXPECT_EQ(got.elements().device(), card);
        EXPECT_TRUE(same_bits(got.elements(), want.elements()))
          << to_string(type) << ", sparse: " << sparse;
        if (sparse)
          expect_same(got.rows(), want.rows());
      }
}

TEST_F(OnACard, AnIdOutOfRangeIsAnErrorOfItsSparseGradient) {
  tape recording;
  const auto table = recording.watch(tensor::zeros({4, 2}).to(card));
  const auto loss = reduce_sum(embedding_lookup(
    table, tensor::of<std::int64_t>({3}, {3, 4, -9}).to(card)));
  const auto text =
    error_of([&] { recording.sparse_gradients(loss, tensors{table}); });
  EXPECT_TRUE(text == "embedding_lookup: id 1 is 4, but the table has 4 rows"
              || text
                   == "embedding_lookup: id 2 is -9, but the table has 4 rows")
    << text;
  // The device can be used further, and the rows that exist were added.
  const sparse_rows rows{{4, 2},
                         tensor::of<std::int64_t>({3}, {3, 4, -9}).to(card),
                         tensor::full({3, 2}, 1).to(card)};
  EXPECT_TRUE(
    same_bits(rows.sorted().indices(), tensor::of<std::int64_t>({1}, {3})));
  EXPECT_TRUE(same_bits(rows.dense(),
                        tensor::of<float>({4, 2}, {0, 0, 0, 0, 0, 0, 1, 1})));
}

/// Trains the first variable of a small model as a table.
tensor trained_table(const strategy& where, const update_rule& rule) {
  const auto scope = where.scope();
  model it{small_net(), rule, {.seed = 5}};
  optimizer own{rule};
  const std::vector variables{it.variables()[0]};
  const auto& dims = variables[0].dims();
  std::mt19937 rng{4};
  for (int step = 0; step < 5; ++step) {
    const auto ids = draw_ids(rng, 700, dims[0]);
    const auto weights = draw_numbers(rng, {700, dims[1]}, dtype::float32);
    where.run([&](replica_context&) {
      const auto on = variables[0].device();
      tape t;
      const auto loss = reduce_sum(
        embedding_lookup(variables[0].value(), ids.to(on)) * weights.to(on));
      own.apply(t.sparse_gradients(loss, variables), variables);
    });
  }
  return variables[0].value().detach().to({}).clone();
}

TEST_F(OnACard, TablesAreTrainedWithTheBitsOfTheCpu) {
  const std::vector<update_rule> rules{
    sgd{.learning_rate = 0.05f},
    sgd{.learning_rate = 0.05f, .momentum = 0.9f},
    sgd{.learning_rate = 0.05f, .momentum = 0.9f, .nesterov = true},
    adam{},
    adagrad{},
    ftrl{}};
  for (std::size_t i = 0; i < rules.size(); ++i)
    EXPECT_TRUE(
      same_bits(trained_table(one_device_strategy{"gpu:0"}, rules[i]),
                trained_table(one_device_strategy{"cpu:0"}, rules[i])))
      << "rule " << i;
}

} // namespace

#include "error_of.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/op_threads.hpp"
#include "troupe/tensors/sparse_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace troupe {
namespace {

sparse_rows rows_of(const shape& dims, const std::vector<std::int64_t>& indices,
                    const std::vector<float>& elements) {
  const auto count = std::int64_t(indices.size());
  return {dims, tensor::of<std::int64_t>({count}, indices),
          tensor::of<float>(dims.with_extent(0, count), elements)};
}

std::vector<std::int64_t> indices_of(const sparse_rows& x) {
  const auto all = x.indices().data<std::int64_t>();
  return {all.begin(), all.end()};
}

bool same(const sparse_rows& a, const sparse_rows& b) {
  return a.dims() == b.dims() && same_bits(a.indices(), b.indices())
         && same_bits(a.rows(), b.rows());
}

// Three numbers whose sum depends on the order: (big + one) - big is 0.
constexpr float big = 0x1p24f, one = 1;

TEST(SparseRows, AreAddedInTheOrderOfTheirOccurrence) {
  const auto x = rows_of({9, 1}, {7, 2, 7, 2, 7}, {big, big, one, -big, -big});
  EXPECT_FALSE(x.is_sorted());
  const auto y = x.sorted();
  EXPECT_TRUE(y.is_sorted());
  EXPECT_TRUE(same(y, rows_of({9, 1}, {2, 7}, {0, (big + one) - big})));
  EXPECT_NE((big + one) - big, (big - big) + one)
    << "the order does not matter";
  EXPECT_EQ(y.sorted().rows().raw(), y.rows().raw())
    << "sorted rows are copied";
}

/// Many parts are sorted in another way than few.
TEST(SparseRows, OfAnyNumberAreSortedByRowAndOccurrence) {
  std::mt19937_64 rng{5};
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{700},
                                  std::int64_t{1} << 21, std::int64_t{1} << 40})
    for (const std::size_t parts : {511u, 512u, 5'000u}) {
      std::vector<std::int64_t> indices;
      std::vector<float> elements;
      std::map<std::int64_t, float> sums;
      for (std::size_t i = 0; i < parts; ++i) {
        indices.push_back(std::int64_t(rng() % std::uint64_t(rows)));
        if (i % 3 == 0)
          indices.back() = i % 2 == 0 ? rows - 1 : 0;
        elements.push_back(std::ldexp(float(rng() % 1'000), int(rng() % 30)));
        const auto [sum, is_new] =
          sums.try_emplace(indices.back(), elements.back());
        if (!is_new)
          sum->second += elements.back();
      }
      std::vector<std::int64_t> sorted;
      std::vector<float> wanted;
      for (const auto& [row, sum] : sums) {
        sorted.push_back(row);
        wanted.push_back(sum);
      }
      EXPECT_TRUE(same(rows_of({rows, 1}, indices, elements).sorted(),
                       rows_of({rows, 1}, sorted, wanted)))
        << rows << " rows, " << parts << " parts";
    }
}

TEST(SparseRows, HaveADenseForm) {
  const auto x = rows_of({4, 2}, {3, 0, 3}, {1, 2, 3, 4, 5, 6});
  const auto whole = tensor::of<float>({4, 2}, {3, 4, 0, 0, 0, 0, 6, 8});
  EXPECT_TRUE(same_bits(x.dense(), whole));
  EXPECT_TRUE(same_bits(x.sorted().dense(), whole));
  auto sum = tensor::full({4, 2}, 1);
  x.add_to(sum);
  EXPECT_TRUE(
    same_bits(sum, tensor::of<float>({4, 2}, {4, 5, 1, 1, 1, 1, 7, 9})));
  const auto none = sparse_rows::zeros({{4, 2}, dtype::float64});
  EXPECT_EQ(none.count(), 0u);
  EXPECT_TRUE(none.is_sorted());
  EXPECT_TRUE(same_bits(none.dense(), tensor::zeros({4, 2}, dtype::float64)));
}

TEST(SparseRows, InBfloat16AreRoundedOnce) {
  // 1 + 2^-8 is rounded to 1 in bfloat16, and 1 + 2^-8 + 2^-8 is a bfloat16.
  const auto x =
    rows_of({3, 1}, {1, 1, 1}, {1, 0x1p-8f, 0x1p-8f}).as(dtype::bfloat16);
  const auto y = x.sorted();
  EXPECT_EQ(y.type(), dtype::bfloat16);
  EXPECT_EQ(float(y.rows().data<bfloat16>()[0]), 1 + 0x1p-7f);
  EXPECT_EQ(float(x.dense().data<bfloat16>()[1]), 1 + 0x1p-7f);
  const auto part = rows_of({3, 1}, {1}, {0x1p-8f}).as(dtype::bfloat16);
  const auto first = rows_of({3, 1}, {1}, {1}).as(dtype::bfloat16);
  const auto sum = sum_over_replicas(std::array{first, part, part});
  EXPECT_EQ(float(sum.rows().data<bfloat16>()[0]), 1 + 0x1p-7f);
}

TEST(SparseRows, OfSeveralTensorsAreJoinedInTheirOrder) {
  const auto a = rows_of({5, 1}, {4, 1}, {1, 2});
  const auto b = rows_of({5, 1}, {1}, {3});
  EXPECT_TRUE(
    same(concat(std::array{a, b}), rows_of({5, 1}, {4, 1, 1}, {1, 2, 3})));
  EXPECT_EQ(error_of([&] { concat(std::span<const sparse_rows>{}); }),
            "a sum or a list of no sparse rows");
  EXPECT_EQ(error_of([&] {
              concat(std::array{a, rows_of({6, 1}, {1}, {3})});
            }),
            "rows of float32[5, 1] and of float32[6, 1] cannot be combined");
}

/// The sum of one row over the replicas [a, b), by the definition of the
/// canonical tree. None: no replica has the row.
std::optional<std::vector<float>>
tree_of_row(const std::vector<sparse_rows>& all, std::int64_t row,
            std::size_t a, std::size_t b) {
  if (b - a == 1) {
    const auto indices = indices_of(all[a]);
    const auto at = std::ranges::find(indices, row) - indices.begin();
    if (std::size_t(at) == indices.size())
      return std::nullopt;
    const tensor x = all[a].rows().slice(at, at + 1);
    return std::vector<float>(x.data<float>().begin(), x.data<float>().end());
  }
  std::size_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  auto left = tree_of_row(all, row, a, a + k);
  const auto right = tree_of_row(all, row, a + k, b);
  if (left && right)
    for (std::size_t i = 0; i < left->size(); ++i)
      (*left)[i] += (*right)[i];
  return left ? left : right;
}

TEST(SparseRows, OfReplicasAreAddedInTheOrderOfTheCanonicalTree) {
  std::mt19937 rng{7};
  const shape dims{40, 3};
  for (std::size_t replicas = 1; replicas <= 9; ++replicas)
    for (int round = 0; round < 20; ++round) {
      std::vector<sparse_rows> all;
      for (std::size_t r = 0; r < replicas; ++r) {
        std::vector<std::int64_t> indices;
        std::vector<float> elements;
        for (std::int64_t row = 0; row < dims.front(); ++row)
          if (rng() % 3 == 0) {
            indices.push_back(row);
            for (int i = 0; i < 3; ++i)
              elements.push_back(
                std::ldexp(float(rng() % 100) - 50, int(rng() % 20)));
          }
        all.push_back(rows_of(dims, indices, elements));
      }
      const auto sum = sum_over_replicas(all);
      std::vector<std::int64_t> indices;
      std::vector<float> elements;
      for (std::int64_t row = 0; row < dims.front(); ++row)
        if (const auto one = tree_of_row(all, row, 0, replicas)) {
          indices.push_back(row);
          elements.insert(elements.end(), one->begin(), one->end());
        }
      ASSERT_TRUE(same(sum, rows_of(dims, indices, elements)))
        << replicas << " replicas, round " << round;
    }
}

/// A replica without the row does not add 0, which would change -0.
TEST(SparseRows, ThatAReplicaLacksKeepTheirBits) {
  const auto a = rows_of({3, 1}, {1}, {-0.0f});
  const auto b = sparse_rows::zeros({{3, 1}, dtype::float32});
  for (const auto& sum : {sum_over_replicas(std::array{a, b}),
                          sum_over_replicas(std::array{b, a, b})})
    EXPECT_TRUE(same(sum, a));
}

/// Tensors that are large enough for several threads.
TEST(SparseRows, HaveTheSameBitsWithSeveralThreads) {
  const shape dims{5'000, 16};
  std::vector<sparse_rows> results[2];
  for (const int threads : {1, 2}) {
    use_threads(threads);
    std::mt19937 rng{3};
    std::vector<sparse_rows> all;
    for (int r = 0; r < 3; ++r) {
      std::vector<std::int64_t> indices;
      for (int i = 0; i < 6'000; ++i)
        indices.push_back(std::int64_t(rng() % 5'000));
      std::vector<float> elements;
      for (std::size_t i = 0; i < 16 * indices.size(); ++i)
        elements.push_back(float(rng() % 2001) / 1000 - 1);
      all.push_back(rows_of(dims, indices, elements).sorted());
    }
    all.push_back(sum_over_replicas(all));
    results[threads - 1] = all;
    use_threads(1);
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_GT(results[0][i].rows().size(), min_parallel_elements);
    EXPECT_TRUE(same(results[0][i], results[1][i])) << i;
  }
}

TEST(SparseRows, RejectWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              rows_of({4, 2}, {1, 4}, {1, 2, 3, 4});
            }),
            "a tensor [4, 2] has no row 4");
  EXPECT_EQ(error_of([] {
              rows_of({4, 2}, {-1}, {1, 2});
            }),
            "a tensor [4, 2] has no row -1");
  const auto refused = [](const shape& dims, const tensor& indices,
                          const tensor& rows) {
    return error_of([&] { sparse_rows{dims, indices, rows}; });
  };
  const tensor one_index = tensor::zeros({1}, dtype::int64);
  EXPECT_EQ(refused({4, 2}, one_index, tensor::zeros({1, 3})),
            "rows of a tensor [4, 2] with the indices int64[1] and the "
            "elements float32[1, 3]");
  EXPECT_NE(refused({}, one_index, tensor::zeros({1})), "");
  EXPECT_NE(refused({4}, tensor::zeros({1}, dtype::int32), tensor::zeros({1})),
            "");
  EXPECT_NE(refused({4}, one_index, tensor::zeros({1}, dtype::int64)), "");
  const auto x = rows_of({4, 1}, {1}, {1});
  auto other = tensor::zeros({4, 1}, dtype::float64);
  EXPECT_EQ(error_of([&] { x.add_to(other); }),
            "rows of float32[4, 1] cannot be added to float64[4, 1]");
  EXPECT_EQ(error_of([&] {
              sum_over_replicas(std::array{rows_of({4, 1}, {2, 1}, {1, 2})});
            }),
            "a sum over replicas of rows that are not sorted");
}

} // namespace
} // namespace troupe

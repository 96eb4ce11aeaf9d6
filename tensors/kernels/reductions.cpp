#include "troupe/tensors/kernels/isa_level.hpp"

namespace troupe::TROUPE_LEVEL {

namespace {

/// Returns the sum of all elements of `f(v)`, over all vectors v of x[n].
template <class F>
inline double total(const float* x, std::size_t n, F f) {
  constexpr std::size_t block = 4096;
  double out = 0;
  for (std::size_t begin = 0; begin < n; begin += block) {
    lanes sums;
    in_lanes(n - begin < block ? n - begin : block,
             [&](std::size_t lane, std::size_t i, auto k) {
               sums.vectors[lane] += f(load(x + begin + i, k));
             });
    out += static_cast<double>(sums.fold([](vec a, vec b) { return a + b; }));
  }
  return out;
}

constexpr std::size_t block_rows = 128, block_columns = 256;

/// Adds `rows` rows of w columns to block_sums[w]. Row r begins at offset
/// r * stride. `read(offset, k)` returns the vector of elements that begins at
/// `offset`. k is `full` or `partial`, as `in_vectors` passes it.
template <class F>
inline void add_rows(float* block_sums, std::size_t rows, std::size_t w,
                     std::size_t stride, F read) {
  std::size_t row = 0;
  for (; row + 4 <= rows; row += 4)
    in_vectors(w, [&](std::size_t j, auto k) {
      const auto at = row * stride + j;
      auto sums = load(block_sums + j, k) + read(at, k);
      sums += read(at + stride, k);
      sums += read(at + 2 * stride, k);
      store(block_sums + j, sums + read(at + 3 * stride, k), k);
    });
  for (; row < rows; ++row)
    in_vectors(w, [&](std::size_t j, auto k) {
      store(block_sums + j, load(block_sums + j, k) + read(row * stride + j, k),
            k);
    });
}

/// Adds the column sums of m rows of n elements to `sums`. Row r begins at
/// element r * stride. `read(i, k)` returns the vector that begins at element
/// i. Sums blocks of 128 rows separately and adds the block sums in order. Thus
/// an element passes through at most 128 + m / 128 + 1 roundings instead of m.
template <class F>
inline void sum_columns(std::size_t m, std::size_t n, std::size_t stride,
                        float* sums, bool accumulate, F read) {
  if (!accumulate)
    for (std::size_t j = 0; j < n; ++j)
      sums[j] = 0;
  for (std::size_t top = 0; top < m; top += block_rows)
    for (std::size_t left = 0; left < n; left += block_columns) {
      const auto w = n - left < block_columns ? n - left : block_columns;
      alignas(64) float block_sums[block_columns] = {};
      add_rows(block_sums, m - top < block_rows ? m - top : block_rows, w,
               stride, [&](std::size_t at, auto k) {
                 return read(top * stride + left + at, k);
               });
      in_vectors(w, [&](std::size_t j, auto k) {
        store(sums + left + j,
              load(sums + left + j, k) + load(block_sums + j, k), k);
      });
    }
}

} // namespace

static double sum(const float* x, std::size_t n) {
  return total(x, n, [](vec v) { return v; });
}

static double sum_of_squares(const float* x, std::size_t n) {
  return total(x, n, [](vec v) { return v * v; });
}

static void column_sums(const float* x, std::size_t m, std::size_t n,
                        std::size_t stride, float* sums, bool accumulate) {
  sum_columns(m, n, stride, sums, accumulate,
              [=](std::size_t at, auto k) { return load(x + at, k); });
}

static void masked_column_sums(float* g, const float* y, std::size_t m,
                               std::size_t n, std::size_t stride, float* sums,
                               bool accumulate) {
  sum_columns(m, n, stride, sums, accumulate, [=](std::size_t at, auto k) {
    const auto masked = load(y + at, k) > 0 ? load(g + at, k) : vec{};
    store(g + at, masked, k);
    return masked;
  });
}

static void column_sums_bfloat16(const std::uint16_t* x, std::size_t m,
                                 std::size_t n, std::size_t stride, float* sums,
                                 bool accumulate) {
  sum_columns(m, n, stride, sums, accumulate,
              [=](std::size_t at, auto k) { return load(x + at, k); });
}

extern void softmax(float* out, const float* x, std::size_t m, std::size_t n);
extern std::size_t softmax_cross_entropy(const float* logits,
                                         const std::int32_t* labels,
                                         std::size_t m, std::size_t n,
                                         float* losses, float* gradient);

extern const reduction_kernels reductions;
const reduction_kernels reductions = {sum,
                                      sum_of_squares,
                                      column_sums,
                                      masked_column_sums,
                                      column_sums_bfloat16,
                                      softmax,
                                      softmax_cross_entropy};

} // namespace troupe::TROUPE_LEVEL

#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/tensors/random.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// Returns a CSV table with the columns a, b, c and price. The price is 1.5 a -
/// 2 b + 0.5 c + 0.25 plus noise in [-0.3, 0.3]. Each number is a float that is
/// written with all its digits.
inline std::string regression_table(std::size_t rows, std::uint64_t seed = 1) {
  std::string text = "a,b,c,price\n";
  random_stream draw{{.seed = seed}};
  for (std::size_t i = 0; i < rows; ++i) {
    const auto a = draw.uniform(-1, 1), b = draw.uniform(-1, 1),
               c = draw.uniform(-1, 1);
    const auto price =
      1.5f * a - 2 * b + 0.5f * c + 0.25f + draw.uniform(-.3f, .3f);
    char line[128];
    std::snprintf(line, sizeof line, "%.9g,%.9g,%.9g,%.9g\n", double(a),
                  double(b), double(c), double(price));
    text += line;
  }
  return text;
}

/// Solves the normal equations of a linear regression with a constant term, in
/// float64 by Gaussian elimination. It is the oracle of the tests of
/// regression.
class least_squares {
public:
  /// @param weights By row. Empty: each row has the weight 1.
  least_squares(const batch& rows, std::span<const float> weights = {})
    : width_{static_cast<std::size_t>(rows.inputs.dims()[1]) + 1} {
    std::vector<double> matrix(width_ * (width_ + 1), 0.0);
    for (std::size_t i = 0; i < std::size_t(rows.rows()); ++i) {
      const double weight = weights.empty() ? 1 : double{weights[i]};
      const auto x = row_of(rows, i);
      const double y = rows.labels.data<float>()[i];
      for (std::size_t r = 0; r < width_; ++r) {
        for (std::size_t c = 0; c < width_; ++c)
          matrix[r * (width_ + 1) + c] += weight * x[r] * x[c];
        matrix[r * (width_ + 1) + width_] += weight * x[r] * y;
      }
    }
    solve(matrix);
  }

  /// The weights of the columns, then the constant term.
  const std::vector<double>& solution() const { return solution_; }

  double prediction(const batch& rows, std::size_t i) const {
    const auto x = row_of(rows, i);
    double sum = 0;
    for (std::size_t k = 0; k < width_; ++k)
      sum += x[k] * solution_[k];
    return sum;
  }

  /// Mean of the squared errors over all rows.
  double mean_squared_error(const batch& rows) const {
    double sum = 0;
    for (std::size_t i = 0; i < std::size_t(rows.rows()); ++i) {
      const double difference =
        prediction(rows, i) - double{rows.labels.data<float>()[i]};
      sum += difference * difference;
    }
    return sum / static_cast<double>(rows.rows());
  }

private:
  std::vector<double> row_of(const batch& rows, std::size_t i) const {
    const auto from = rows.inputs.data<float>().subspan(i * (width_ - 1));
    std::vector<double> x(from.begin(),
                          from.begin() + std::ptrdiff_t(width_ - 1));
    x.push_back(1);
    return x;
  }

  void solve(std::vector<double>& matrix) {
    const auto at = [&](std::size_t r, std::size_t c) -> double& {
      return matrix[r * (width_ + 1) + c];
    };
    for (std::size_t k = 0; k < width_; ++k) {
      auto pivot = k;
      for (auto r = k + 1; r < width_; ++r)
        if (std::abs(at(r, k)) > std::abs(at(pivot, k)))
          pivot = r;
      for (std::size_t c = 0; c <= width_; ++c)
        std::swap(at(k, c), at(pivot, c));
      for (std::size_t r = 0; r < width_; ++r) {
        const auto factor = r == k ? 0 : at(r, k) / at(k, k);
        for (auto c = k; c <= width_; ++c)
          at(r, c) -= factor * at(k, c);
      }
    }
    for (std::size_t k = 0; k < width_; ++k)
      solution_.push_back(at(k, width_) / at(k, k));
  }

  std::size_t width_; ///< Columns and the constant term.
  std::vector<double> solution_;
};

} // namespace troupe::test

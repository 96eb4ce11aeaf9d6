#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <troupe/troupe.hpp>

namespace {

/// A loss of the program's own: the squared error, not its mean over outputs.
troupe::tensor squared_error(const troupe::tensor& outputs,
                             const troupe::tensor& targets) {
  return troupe::reduce_sum(troupe::square(outputs - targets), {1});
}

} // namespace

/// A regression outside the source tree. It fits a line to the rows of a CSV
/// file, with a built-in loss and with a loss of its own. Then it compares the
/// error with that of the least squares line.
int main() {
  constexpr int rows = 64;
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0, sum_yy = 0;
  {
    std::ofstream file{"line.csv"};
    file << "x,y\n";
    for (int i = 0; i < rows; ++i) {
      // These numbers are exact in float32 and in six decimal places.
      const double x = (i - 32) / 32.0, y = 3 * x - 1 + (i * 7 % 16 - 8) / 64.0;
      char line[64];
      std::snprintf(line, sizeof line, "%.6f,%.6f\n", x, y);
      file << line;
      sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y, sum_yy += y * y;
    }
  }
  const auto xy = sum_xy - sum_x * sum_y / rows,
             xx = sum_xx - sum_x * sum_x / rows,
             yy = sum_yy - sum_y * sum_y / rows;
  const auto least = (yy - xy * xy / xx) / rows;

  troupe::models::register_loss({.name = "squared_error",
                                 .targets = troupe::models::target_kind::values,
                                 .compute = squared_error});
  const auto data =
    troupe::data::csv("line.csv", {.targets = {"y"}}).batch(rows);
  for (const auto* loss : {"mean_squared_error", "squared_error"}) {
    troupe::model model{
      {.name = "line",
       .input = {1},
       .layers = troupe::models::stack(troupe::models::dense{1})},
      troupe::sgd{.learning_rate = 0.4f},
      {.loss = loss}};
    const auto found = model.fit(data, {.epochs = 200}).last().loss;
    std::cout << loss << ' ' << found << ", least squares " << least << '\n';
    if (!(std::abs(found / least - 1) < 1e-4))
      return 1;
  }
}

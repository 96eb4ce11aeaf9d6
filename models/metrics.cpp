#include "troupe/models/metrics.hpp"

#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace troupe::models {

std::uint64_t correct(const tensor& scores, const tensor& labels) {
  const auto &x = scores.dims(), &y = labels.dims();
  if (x.rank() != 2 || y.rank() != 1 || x[0] != y[0])
    throw std::logic_error("accuracy of scores " + to_string(scores.spec())
                           + " and labels " + to_string(labels.spec()));
  const auto classes = static_cast<std::size_t>(x[1]);
  const auto values = scores.data<float>();
  const auto wanted = labels.data<std::int32_t>();
  const flush_denormals flushing;
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto row = values.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(wanted[i]);
    if (label >= classes)
      throw std::logic_error("label " + std::to_string(wanted[i]) + " in row "
                             + std::to_string(i) + " of "
                             + std::to_string(classes) + " classes");
    const auto unordered = [](float score) { return std::isnan(score); };
    if (!std::ranges::any_of(row, unordered)
        && std::ranges::max_element(row) - row.begin()
             == static_cast<std::ptrdiff_t>(label))
      ++hits;
  }
  return hits;
}

double total(const tensor& losses) {
  const flush_denormals flushing;
  const auto each = losses.data<float>();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

} // namespace troupe::models

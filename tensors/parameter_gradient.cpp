#include "troupe/tensors/parameter_gradient.hpp"

#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

double sum_of_squares(const tensor& x) {
  double sum = 0;
  const auto read = x.detach().to({});
  with_dtype(x.type(), [&]<class T>(T) {
    for (const auto one : read.data<T>())
      sum += static_cast<double>(one) * static_cast<double>(one);
  });
  return sum;
}

} // namespace

const sparse_rows& parameter_gradient::rows() const {
  if (!is_sparse())
    throw std::logic_error(
      "a gradient " + (whole_ ? to_string(whole_.spec()) : "without elements")
      + " is dense; it has no list of rows");
  return rows_;
}

double global_norm(std::span<const parameter_gradient> list) {
  double sum = 0;
  for (const auto& x : list)
    sum += sum_of_squares(x.elements());
  return std::sqrt(sum);
}

double clip_by_global_norm(std::span<parameter_gradient> list,
                           double max_norm) {
  if (!(max_norm > 0))
    throw std::invalid_argument("max_norm " + std::to_string(max_norm)
                                + ": it must be above 0");
  const auto norm = global_norm(list);
  if (!(norm > max_norm) || !std::isfinite(norm))
    return norm;
  const pause_recording gradients_are_constants;
  for (auto& x : list) {
    auto scaled = x.elements() * (max_norm / norm);
    if (x.is_sparse())
      x = sparse_rows{x.dims(), x.rows().indices(), std::move(scaled)};
    else
      x = std::move(scaled);
  }
  return norm;
}

} // namespace troupe

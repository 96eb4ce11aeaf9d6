#include "troupe/data/sources/synthetic.hpp"

#include "troupe/tensors/random.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::data {

dataset synthetic(const synthetic_options& options) {
  const auto n = static_cast<std::int64_t>(options.examples);
  if (n < 1 || options.classes < 1 || options.classes > INT32_MAX)
    throw std::invalid_argument(
      "synthetic data of " + std::to_string(n) + " examples and "
      + std::to_string(options.classes) + " classes: give at least 1 of each");
  std::vector<std::int64_t> extents{n};
  extents.insert(extents.end(), options.example.begin(), options.example.end());
  tensor inputs{shape{extents}};
  tensor labels{{n}, dtype::int32};
  fill_normal(inputs.mutable_data<float>(), 0, 1,
              {.seed = options.seed, .op = draws_data + 1});
  random_stream random{{.seed = options.seed, .op = draws_data + 2}};
  for (auto& x : labels.mutable_data<std::int32_t>())
    x = std::int32_t(random.below(std::uint32_t(options.classes)));
  return {inputs, labels, options.classes};
}

} // namespace troupe::data

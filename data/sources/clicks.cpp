#include "troupe/data/sources/clicks.hpp"

#include "troupe/tensors/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

// This file uses only additions, multiplications, divisions and square roots.
// IEEE 754 defines the results of these operations to the last bit, so an
// example has the same bits on all machines.

namespace troupe::data {

namespace {

/// `random_key::op` of the examples and of the planted weights.
constexpr auto draws_examples = draws_data + 3, draws_weights = draws_data + 4;

/// Number of the categories with a weight of their own.
constexpr std::int64_t weighted_categories = 63;

constexpr float number_deviation = 0.25f, category_deviation = 0.3f;

void check(const clicks_options& x) {
  const auto require = [](bool holds, const char* what, std::uint64_t value,
                          const char* range) {
    if (!holds)
      throw std::invalid_argument("generated clicks with "
                                  + std::to_string(value) + " " + what
                                  + ": give a number from " + range);
  };
  const auto is_in = [](std::int64_t value, std::int64_t low,
                        std::int64_t high) {
    return value >= low && value <= high;
  };
  require(x.examples > 0 && x.examples <= 1u << 24, "examples", x.examples,
          "1 to 16777216");
  require(is_in(x.numbers, 1, 1'000), "numbers", std::uint64_t(x.numbers),
          "1 to 1000");
  require(is_in(x.categories, 1, 1'000), "categories",
          std::uint64_t(x.categories), "1 to 1000");
  require(is_in(x.rows, 1, 1 << 24), "rows", std::uint64_t(x.rows),
          "1 to 16777216");
}

/// The planted model, and the examples that it draws.
class planted_model {
public:
  explicit planted_model(const clicks_options& options)
    : options_{options},
      levels_{static_cast<std::uint32_t>(
        std::bit_width(static_cast<std::uint64_t>(options.rows)))} {
    check(options);
    random_stream draw{{.seed = options.seed, .op = draws_weights}};
    for (std::int64_t i = 0; i < options.numbers; ++i)
      number_weights_.push_back(number_deviation * draw.normal());
    for (std::int64_t i = 0; i < options.categories * weighted_categories; ++i)
      category_weights_.push_back(category_deviation * draw.normal());
  }

  /// Draws example i.
  /// @param numbers, categories receive the example.
  /// @returns its probability of a click.
  double draw(std::uint64_t i, std::span<float> numbers,
              std::span<std::int32_t> categories, float& label) const {
    random_stream random{
      {.seed = options_.seed, .step = i, .op = draws_examples}};
    double score = 0;
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      numbers[k] = random.normal();
      score += double(number_weights_[k]) * double(numbers[k]);
    }
    for (std::size_t k = 0; k < categories.size(); ++k) {
      const auto x = draw_category(random);
      categories[k] = static_cast<std::int32_t>(x);
      if (x < weighted_categories)
        score += double(category_weights_[k * weighted_categories
                                          + static_cast<std::size_t>(x)]);
    }
    const auto p = 0.5 + score / (2 * std::sqrt(1 + score * score));
    label = double(random.uniform()) < p ? 1.0f : 0.0f;
    return p;
  }

private:
  std::int64_t draw_category(random_stream& random) const {
    const auto low = std::int64_t{1} << random.below(levels_);
    const auto high = std::min(2 * low, options_.rows + 1);
    return low - 1 + random.below(static_cast<std::uint32_t>(high - low));
  }

  clicks_options options_;
  std::uint32_t levels_;
  std::vector<float> number_weights_, category_weights_;
};

} // namespace

dataset clicks(const clicks_options& options) {
  const planted_model model{options};
  const auto n = static_cast<std::int64_t>(options.examples);
  const auto numbers = static_cast<std::size_t>(options.numbers),
             categories = static_cast<std::size_t>(options.categories);
  batch out;
  out.inputs = tensor{{n, options.numbers}};
  out.labels = tensor{{n, 1}};
  tensor of_categories{{n, options.categories}, dtype::int32};
  const auto to_numbers = out.inputs.mutable_data<float>();
  const auto to_categories = of_categories.mutable_data<std::int32_t>();
  const auto labels = out.labels.mutable_data<float>();
  for (std::size_t i = 0; i < options.examples; ++i)
    model.draw(i, to_numbers.subspan(i * numbers, numbers),
               to_categories.subspan(i * categories, categories), labels[i]);
  out.others.push_back({"categories", std::move(of_categories)});
  return dataset::of(std::move(out));
}

double best_clicks_auc(const clicks_options& options, std::uint64_t first) {
  const planted_model model{options};
  std::vector<float> numbers(static_cast<std::size_t>(options.numbers));
  std::vector<std::int32_t> categories(
    static_cast<std::size_t>(options.categories));
  std::vector<double> clicked; // probabilities
  float label = 0;
  for (auto i = first; i < options.examples; ++i)
    clicked.push_back(model.draw(i, numbers, categories, label));
  std::ranges::sort(clicked);
  // Of all pairs of a click and an example without one, the fraction in which
  // the click has the higher score.
  double not_clicked_below = 0, ordered = 0, pairs = 0, with_itself = 0;
  for (const auto p : clicked) {
    ordered += p * not_clicked_below;
    not_clicked_below += 1 - p;
    pairs += p;
    with_itself += p * (1 - p);
  }
  return ordered / (pairs * not_clicked_below - with_itself);
}

} // namespace troupe::data

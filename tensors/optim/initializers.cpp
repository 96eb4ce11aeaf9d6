#include "troupe/tensors/optim/initializers.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/random.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe {

namespace {

enum class draw { constant, uniform, normal };

/// Definition of one initializer. `first` and `second` name its
/// hyperparameters: value, or low and high, or mean and deviation. If `spread`
/// is set, there are no hyperparameters: the distribution is symmetric around
/// 0, and `spread` computes high or the deviation from the fans.
struct entry {
  const char* name;
  draw distribution;
  const char* first = nullptr;
  float first_default = 0;
  const char* second = nullptr;
  float second_default = 0;
  double (*spread)(const fans&) = nullptr;
};

const entry entries[] = {
  {"zeros", draw::constant},
  {"ones", draw::constant, nullptr, 1},
  {"constant", draw::constant, "value"},
  {"uniform", draw::uniform, "low", -0.05f, "high", 0.05f},
  {"normal", draw::normal, "mean", 0, "deviation", 0.05f},
  {.name = "glorot_uniform",
   .distribution = draw::uniform,
   .spread = [](const fans& f) { return std::sqrt(6 / (f.in + f.out)); }},
  {.name = "glorot_normal",
   .distribution = draw::normal,
   .spread = [](const fans& f) { return std::sqrt(2 / (f.in + f.out)); }},
  {.name = "he_uniform",
   .distribution = draw::uniform,
   .spread = [](const fans& f) { return std::sqrt(6 / f.in); }},
  {.name = "he_normal",
   .distribution = draw::normal,
   .spread = [](const fans& f) { return std::sqrt(2 / f.in); }},
};

} // namespace

fans fans_of(const shape& dims) {
  if (dims.rank() == 0)
    return {};
  const auto out = static_cast<double>(dims.back());
  if (dims.rank() == 1)
    return {out, out};
  double window = 1;
  for (std::size_t axis = 0; axis + 2 < dims.rank(); ++axis)
    window *= static_cast<double>(dims[axis]);
  return {window * static_cast<double>(dims[dims.rank() - 2]), window * out};
}

initializer::initializer(std::string_view name,
                         std::span<const hyperparameter> numbers)
  : name_{name} {
  const auto& names = initializer_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw std::invalid_argument("the initializer '" + name_
                                + "' is unknown; there are "
                                + detail::joined(names));
  kind_ = static_cast<std::size_t>(found - names.begin());
  const auto& definition = entries[kind_];
  first_ = definition.first_default;
  second_ = definition.second_default;
  detail::hyperparameter_reader read{name, numbers};
  if (definition.first)
    read(definition.first, first_);
  if (definition.second)
    read(definition.second, second_);
  read.finish();
  if (definition.second && definition.distribution == draw::uniform) {
    const auto high = detail::as_written(second_);
    detail::require(first_ < second_, name, "high", high,
                    "it must be above low");
    detail::require(std::isfinite(second_ - first_), name, "high", high,
                    "it is too far above low");
  }
  if (definition.second && definition.distribution == draw::normal)
    detail::require(second_ >= 0, name, "deviation",
                    detail::as_written(second_), "it must not be negative");
}

hyperparameters initializer::numbers() const {
  hyperparameters out;
  const detail::hyperparameter_writer write{&out};
  if (entries[kind_].first)
    write(entries[kind_].first, first_);
  if (entries[kind_].second)
    write(entries[kind_].second, second_);
  return out;
}

void initializer::fill(std::span<float> out, const shape& dims,
                       const random_key& key) const {
  if (out.size() != dims.elements())
    throw std::logic_error(std::to_string(out.size())
                           + " elements for a parameter of shape "
                           + to_string(dims));
  fill_range(out, dims, key, 0);
}

void initializer::fill_range(std::span<float> out, const shape& dims,
                             const random_key& key, std::uint64_t first) const {
  if (first > dims.elements() || out.size() > dims.elements() - first)
    throw std::logic_error("elements " + std::to_string(first) + " to "
                           + std::to_string(first + out.size())
                           + " of a parameter of shape " + to_string(dims));
  const flush_denormals flushing;
  const auto& definition = entries[kind_];
  auto a = first_, b = second_;
  if (definition.spread && !out.empty()) {
    b = static_cast<float>(definition.spread(fans_of(dims)));
    a = definition.distribution == draw::uniform ? -b : 0;
  }
  if (definition.distribution == draw::constant)
    std::ranges::fill(out, a);
  else if (definition.distribution == draw::uniform)
    fill_uniform(out, a, b, key, first);
  else
    fill_normal(out, a, b, key, first);
}

const std::vector<std::string>& initializer_names() {
  static const auto names = [] {
    std::vector<std::string> out;
    for (const auto& each : entries)
      out.emplace_back(each.name);
    return out;
  }();
  return names;
}

random_key initial_key(std::uint64_t seed, std::uint32_t index) {
  return {.seed = seed, .op = draws_initial + index};
}

} // namespace troupe

#include "troupe/models/zoo.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/models/layers.hpp"

#include <stdexcept>

namespace troupe::models {

namespace {

struct zoo_entry {
  std::string_view name;
  model_description (*make)();
};

constexpr zoo_entry entries[] = {
  {"lenet", lenet}, {"mlp", mlp}, {"wide_deep", wide_deep}};

} // namespace

model_description mlp() {
  using enum activation;
  return {.name = "mlp",
          .input = {28, 28, 1},
          .layers =
            stack(flatten{}, dense{512, relu}, dense{512, relu}, dense{10})};
}

model_description lenet() {
  constexpr auto same = padding::same;
  constexpr auto relu = activation::relu;
  return {.name = "lenet",
          .input = {28, 28, 1},
          .layers = stack(conv2d{32, 5, same, relu}, max_pool2d{2},
                          conv2d{64, 5, same, relu}, max_pool2d{2}, flatten{},
                          dense{1024, relu}, dense{10})};
}

model_description wide_deep() {
  constexpr auto relu = activation::relu;
  return {.name = "wide_deep",
          .input = {13},
          .layers = stack(category_embedding{100'000, 16}, dense{256, relu},
                          dense{128, relu}, dense{1}),
          .categories = 26};
}

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const auto& one : entries)
    names.emplace_back(one.name);
  return names;
}

model_description find_model(std::string_view name) {
  for (const auto& one : entries)
    if (one.name == name)
      return one.make();
  if (name.ends_with(".json") || name.find('/') != name.npos)
    return load(std::filesystem::path{name});
  const auto names = zoo_names();
  throw std::invalid_argument("there is no model " + detail::in_quotes(name)
                              + ";" + detail::guess(name, names)
                              + " give one of " + detail::joined(names)
                              + ", or a file that ends in .json");
}

} // namespace troupe::models

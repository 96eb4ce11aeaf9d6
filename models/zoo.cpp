#include "troupe/models/zoo.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/models/layers.hpp"

#include <stdexcept>

namespace troupe::models {

namespace {

struct ready_model {
  std::string_view name;
  model_description (*make)();
};

constexpr ready_model all[] = {{"lenet", lenet}, {"mlp", mlp}};

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

std::vector<std::string> ready_names() {
  std::vector<std::string> names;
  for (const auto& one : all)
    names.emplace_back(one.name);
  return names;
}

model_description find(std::string_view what) {
  for (const auto& one : all)
    if (one.name == what)
      return one.make();
  if (what.ends_with(".json") || what.find('/') != what.npos)
    return load(std::filesystem::path{what});
  const auto names = ready_names();
  throw std::invalid_argument("there is no model " + detail::in_quotes(what)
                              + ";" + detail::guess(what, names)
                              + " give one of " + detail::joined(names)
                              + ", or a file that ends in .json");
}

} // namespace troupe::models

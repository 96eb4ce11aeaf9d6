#include "troupe/training/support/describe_model.hpp"

#include "troupe/tensors/base/exact_numbers.hpp"
#include "troupe/tensors/ops/dense.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace troupe {

std::string describe_model(const models::model_description& x) {
  using json = nlohmann::ordered_json;
  const auto object = json::parse(models::to_json_text(x));
  const auto text = [](const json& value) {
    return value.is_string()
             ? value.get<std::string>()
             : value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string out = "model: " + x.name + '\n';
  for (const auto& [key, value] : object.items())
    if (key != "version" && key != "name" && key != "layers")
      out += "model's " + key + ": " + text(value) + '\n';
  std::size_t number = 0;
  for (const auto& layer : object.at("layers"))
    out += "layer " + std::to_string(++number) + ": " + text(layer) + '\n';
  return out + "layers: " + std::to_string(number) + '\n';
}

std::string describe_precision(models::precision x, const device& on) {
  std::string out{models::to_string(x)};
  if (on.kind != device_kind::cpu)
    return out + " on a CUDA device";
  if (x == models::precision::bf16)
    out += ops::matmul.find_kernels(dtype::bfloat16)
             ? ", with instructions of the processor"
             : ", without instructions of the processor";
  return out;
}

std::string describe_rule(const update_rule& x) {
  auto numbers = x.numbers();
  std::erase_if(numbers,
                [](const auto& one) { return one.name == "learning_rate"; });
  return std::string{x.name()} + exact_text(numbers);
}

} // namespace troupe

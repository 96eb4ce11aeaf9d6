#include "troupe/benchmarks/workload.hpp"

#include "troupe/data/sources/synthetic.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/ops/conv2d_max_pool.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/random.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::benchmarks {

namespace {

constexpr auto relu = activation::relu;

/// Units of the layers of "wide".
constexpr int wide_1 = 4096, wide_2 = 15'616;

tensor mlp(std::span<const variable> variables, const tensor& images) {
  auto h = reshape(images, shape{images.dims()[0], 784});
  h = dense(h, variables[0].value(), variables[1].value(), relu);
  h = dense(h, variables[2].value(), variables[3].value(), relu);
  return dense(h, variables[4].value(), variables[5].value());
}

tensor lenet(std::span<const variable> variables, const tensor& images) {
  const conv_pool_options same{.conv = {.pad = padding::same, .f = relu}};
  auto h =
    conv2d_max_pool(images, variables[0].value(), variables[1].value(), same);
  h = conv2d_max_pool(h, variables[2].value(), variables[3].value(), same);
  h = reshape(h, shape{images.dims()[0], 7 * 7 * 64});
  h = dense(h, variables[4].value(), variables[5].value(), relu);
  return dense(h, variables[6].value(), variables[7].value());
}

const std::vector<workload>& workloads() {
  static const std::vector<workload> list{
    {.name = "mlp",
     .example = {28, 28, 1},
     .parameters = {{"dense_1/kernel", {784, 512}},
                    {"dense_1/bias", {512}},
                    {"dense_2/kernel", {512, 512}},
                    {"dense_2/bias", {512}},
                    {"dense_3/kernel", {512, 10}},
                    {"dense_3/bias", {10}}},
     .forward = mlp,
     .rule = sgd{.learning_rate = 0.01f, .momentum = 0.9f},
     .activation_bytes = 4 * (512 + 512 + 10)},
    {.name = "lenet",
     .example = {28, 28, 1},
     .parameters = {{"conv2d_1/kernel", {5, 5, 1, 32}},
                    {"conv2d_1/bias", {32}},
                    {"conv2d_2/kernel", {5, 5, 32, 64}},
                    {"conv2d_2/bias", {64}},
                    {"dense_1/kernel", {3136, 1024}},
                    {"dense_1/bias", {1024}},
                    {"dense_2/kernel", {1024, 10}},
                    {"dense_2/bias", {10}}},
     .forward = lenet,
     .rule = adam{.learning_rate = 1e-3f},
     .activation_bytes = 5 * (14 * 14 * 32 + 7 * 7 * 64) + 4 * (1024 + 10)},
    {.name = "wide",
     .example = {28, 28, 1},
     .parameters = {{"dense_1/kernel", {784, wide_1}},
                    {"dense_1/bias", {wide_1}},
                    {"dense_2/kernel", {wide_1, wide_2}},
                    {"dense_2/bias", {wide_2}},
                    {"dense_3/kernel", {wide_2, 10}},
                    {"dense_3/bias", {10}}},
     .forward = mlp,
     .rule = sgd{.learning_rate = 0.01f},
     .activation_bytes = 4 * (wide_1 + wide_2 + 10)},
    {.name = "wide_deep",
     .example = {13},
     .rule = adagrad{.learning_rate = 0.01f},
     .activation_bytes = 4 * (26 * 16 + 429 + 256 + 128 + 1),
     .loss = "binary_cross_entropy"},
  };
  return list;
}

} // namespace

const workload& find_workload(std::string_view name) {
  for (const auto& one : workloads())
    if (one.name == name)
      return one;
  throw std::invalid_argument("there is no benchmark of '" + std::string{name}
                              + "'; use mlp, lenet, wide or wide_deep");
}

models::model_description description_of(const workload& one) {
  if (one.name != "wide")
    return models::find_model(one.name);
  using namespace models;
  return {.name = "wide",
          .input = one.example,
          .layers = stack(flatten{}, models::dense{wide_1, relu},
                          models::dense{wide_2, relu}, models::dense{10})};
}

update_rule rule_for(const workload& model, std::uint64_t batch) {
  if (batch >= 16)
    return model.rule;
  auto numbers = model.rule.numbers();
  for (auto& [name, value] : numbers)
    if (name == "learning_rate")
      value /= 10;
  return update_rule{model.rule.name(), numbers};
}

namespace {

/// Returns categories of which c has a probability proportional to 1 / (c +
/// 1)^1.1, as the programs in benchmarks/peers/ draw them.
tensor zipf_categories(const shape& dims, std::int64_t rows) {
  std::vector<double> below{0}; // sum of the weights of lower categories
  for (std::int64_t c = 0; c < rows; ++c)
    below.push_back(below.back() + std::pow(double(c + 1), -1.1));
  tensor out{dims, dtype::int32};
  random_stream draw{{.seed = 1, .op = draws_data + 5}};
  for (auto& x : out.mutable_data<std::int32_t>()) {
    const auto at = double(draw.uniform()) * below.back();
    x = std::int32_t(std::ranges::upper_bound(below, at) - below.begin()) - 1;
  }
  return out;
}

/// Returns random clicks for "wide_deep".
data::dataset random_clicks(std::int64_t examples) {
  const auto model = models::wide_deep();
  tensor numbers{{examples, model.input[0]}}, labels{{examples, 1}};
  fill_normal(numbers.mutable_data<float>(), 0, 1, {.seed = 1});
  fill_bernoulli(labels.mutable_data<float>(), 0.5, 1, {.seed = 2});
  troupe::batch all{numbers, labels};
  all.others.push_back(
    {"categories", zipf_categories({examples, model.categories}, 100'000)});
  return data::dataset::of(std::move(all));
}

} // namespace

data::dataset synthetic_batches(const workload& model, std::uint64_t batch,
                                const device& on) {
  const auto examples = batch * prepared_batches;
  if (model.name == "wide_deep")
    return random_clicks(std::int64_t(examples)).batch(batch);
  const auto here = data::synthetic(
    {.example = model.example, .examples = examples, .classes = 10, .seed = 1});
  if (on.kind == device_kind::cpu)
    return here.batch(batch);
  const auto all = *here.batch(examples).iterate().next();
  return data::dataset{all.inputs.to(on), all.labels, 10}.batch(batch);
}

} // namespace troupe::benchmarks

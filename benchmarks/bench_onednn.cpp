// Times oneDNN alone on the matrix products and convolutions of the benchmarked
// models. Prints one JSON line per operation (forward, gradient of the weights,
// gradient of the input). Then prints one line per model: the time and
// examples/s of a step that consists only of these operations and the update.
// In docs/performance.md these examples/s are the upper bound of the speed.

#include "troupe/benchmarks/timing.hpp"
#include "troupe/benchmarks/workload.hpp"
#include "troupe/tensors/context.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

namespace {

using namespace troupe::benchmarks;
using layout = dnnl::memory::desc;
using tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

const dnnl::engine& cpu() {
  static const dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  return engine;
}

/// Returns the median seconds of one execution. `arguments` lists the layout of
/// the memory for each argument of the primitive.
double time_of(const dnnl::primitive& primitive,
               std::initializer_list<std::pair<int, layout>> arguments) {
  dnnl::stream stream{cpu()};
  std::unordered_map<int, dnnl::memory> bound;
  for (const auto& [argument, memory_layout] : arguments) {
    dnnl::memory memory{memory_layout, cpu()};
    std::fill_n(static_cast<float*>(memory.get_data_handle()),
                memory_layout.get_size() / sizeof(float), 0.5f);
    bound.emplace(argument, memory);
  }
  return median(time_steps({.count = 5, .seconds = 0.03}, [&](auto runs) {
    for (; runs > 0; --runs)
      primitive.execute(stream, bound);
    stream.wait();
  }));
}

struct result {
  std::string label;
  std::string implementation;
  double seconds = 0, flops = 0;
};

/// Adds the times of a step's operations, and prints the time of each
/// operation.
class step_sum {
public:
  step_sum(const workload& model, std::int64_t batch, int threads)
    : model_{model}, batch_{batch}, threads_{threads} {}

  void add(const result& measured) {
    seconds_ += measured.seconds;
    flops_ += measured.flops;
    std::cout << nlohmann::json{{"case", name()},
                                {"what", measured.label},
                                {"us", 1e6 * measured.seconds},
                                {"gflop_per_s",
                                 1e-9 * measured.flops / measured.seconds},
                                {"implementation", measured.implementation}}
              << std::endl;
  }

  /// Times the product of two matrices [m, k] and [k, n]. The first matrix has
  /// layout `a`. The second has layout `b` in one measurement, and the layout
  /// that oneDNN chooses in another. Adds the shorter time to the time of the
  /// step.
  void product(const std::string& label, std::int64_t m, std::int64_t n,
               std::int64_t k, tag a, tag b) {
    result best;
    for (const auto weights : {b, tag::any}) {
      const dnnl::matmul::primitive_desc descriptor{
        {layout{{m, k}, f32, a}, layout{{k, n}, f32, weights},
         layout{{m, n}, f32, tag::ab}},
        cpu()};
      const auto seconds =
        time_of(dnnl::matmul{descriptor},
                {{DNNL_ARG_SRC, descriptor.src_desc()},
                 {DNNL_ARG_WEIGHTS, descriptor.weights_desc()},
                 {DNNL_ARG_DST, descriptor.dst_desc()}});
      if (best.seconds == 0 || seconds < best.seconds)
        best = {label, descriptor.impl_info_str(), seconds, 2.0 * m * n * k};
    }
    add(best);
  }

  /// Times the three products of a dense layer: forward, gradient of the
  /// weights and gradient of the input. The first layer does not need the
  /// third.
  void dense(const std::string& label, std::int64_t inputs,
             std::int64_t outputs, bool first = false) {
    product(label + " forward", batch_, outputs, inputs, tag::ab, tag::ab);
    product(label + " by weights", inputs, outputs, batch_, tag::ba, tag::ab);
    if (!first)
      product(label + " by data", batch_, inputs, outputs, tag::ab, tag::ba);
  }

  /// Times forward and backward of a 5 x 5 convolution. Input and output images
  /// have `extent` rows and columns.
  void convolution(const std::string& label, std::int64_t extent,
                   std::int64_t in_channels, std::int64_t out_channels,
                   bool first = false);

  void finish() {
    const auto update = time_update();
    const auto seconds = seconds_ + update;
    std::cout << nlohmann::json{{"case", name()},
                                {"what", "step"},
                                {"us", 1e6 * seconds},
                                {"products_us", 1e6 * seconds_},
                                {"update_us", 1e6 * update},
                                {"gflop_per_s", 1e-9 * flops_ / seconds_},
                                {"examples_per_s", double(batch_) / seconds}}
              << std::endl;
  }

private:
  std::string name() const {
    return std::string{model_.name} + "/b" + std::to_string(batch_) + "/t"
           + std::to_string(threads_) + "/onednn";
  }

  double time_update() const {
    troupe::parameters params{model_.parameters};
    auto values = params.values();
    std::array slots{troupe::tensor::zeros(values.dims()),
                     troupe::tensor::zeros(values.dims())};
    std::array<std::span<float>, 2> spans{slots[0].mutable_data<float>(),
                                          slots[1].mutable_data<float>()};
    std::uint64_t step = 0;
    return median(time_steps({.count = 5, .seconds = 0.05}, [&](auto runs) {
      for (; runs > 0; --runs)
        model_.rule.apply(values.mutable_data<float>(),
                          params.gradients().data<float>(),
                          std::span{spans}.first(model_.rule.slots()), ++step,
                          model_.rule.learning_rate());
    }));
  }

  const workload& model_;
  std::int64_t batch_;
  int threads_;
  double seconds_ = 0, flops_ = 0;
};

void step_sum::convolution(const std::string& label, std::int64_t extent,
                           std::int64_t in_channels, std::int64_t out_channels,
                           bool first) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::memory::dims ones{1, 1}, twos{2, 2};
  const layout bias{{out_channels}, f32, tag::a};
  const layout weights{{out_channels, in_channels, 5, 5}, f32, tag::any};
  const auto flops =
    2.0 * batch_ * extent * extent * 25 * in_channels * out_channels;
  std::array<result, 3> best;
  const auto keep = [&](std::size_t i, const char* direction,
                        const auto& descriptor, double seconds) {
    if (best[i].seconds == 0 || seconds < best[i].seconds)
      best[i] = {label + direction, descriptor.impl_info_str(), seconds, flops};
  };
  for (const auto images : {tag::nhwc, tag::any}) {
    const layout input{{batch_, in_channels, extent, extent}, f32, images};
    const layout output{{batch_, out_channels, extent, extent}, f32, images};
    const dnnl::convolution_forward::primitive_desc forward{
      {dnnl::prop_kind::forward_training, direct, input, weights, bias, output,
       ones, twos, twos},
      cpu()};
    keep(0, " forward", forward,
         time_of(dnnl::convolution_forward{forward},
                 {{DNNL_ARG_SRC, forward.src_desc()},
                  {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                  {DNNL_ARG_BIAS, bias},
                  {DNNL_ARG_DST, forward.dst_desc()}}));
    const dnnl::convolution_backward_weights::primitive_desc by_weights{
      {direct, input, weights, bias, output, ones, twos, twos}, cpu(), forward};
    keep(1, " by weights", by_weights,
         time_of(dnnl::convolution_backward_weights{by_weights},
                 {{DNNL_ARG_SRC, by_weights.src_desc()},
                  {DNNL_ARG_DIFF_DST, by_weights.diff_dst_desc()},
                  {DNNL_ARG_DIFF_WEIGHTS, by_weights.diff_weights_desc()},
                  {DNNL_ARG_DIFF_BIAS, bias}}));
    if (first)
      continue;
    const dnnl::convolution_backward_data::primitive_desc by_data{
      {direct, input, weights, output, ones, twos, twos}, cpu(), forward};
    keep(2, " by data", by_data,
         time_of(dnnl::convolution_backward_data{by_data},
                 {{DNNL_ARG_DIFF_DST, by_data.diff_dst_desc()},
                  {DNNL_ARG_WEIGHTS, by_data.weights_desc()},
                  {DNNL_ARG_DIFF_SRC, by_data.diff_src_desc()}}));
  }
  for (const auto& one : best)
    if (one.seconds > 0)
      add(one);
}

void measure(const std::string& model, std::int64_t batch, int threads) {
  step_sum sum{find_workload(model), batch, threads};
  if (model == "mlp") {
    sum.dense("dense_1", 784, 512, true);
    sum.dense("dense_2", 512, 512);
    sum.dense("dense_3", 512, 10);
  } else {
    sum.convolution("conv2d_1", 28, 1, 32, true);
    sum.convolution("conv2d_2", 14, 32, 64);
    sum.dense("dense_1", 3136, 1024);
    sum.dense("dense_2", 1024, 10);
  }
  sum.finish();
}

void print_version() {
  const auto* version = dnnl::version();
  std::cout << nlohmann::json{{"onednn", std::to_string(version->major) + '.'
                                           + std::to_string(version->minor)
                                           + '.'
                                           + std::to_string(version->patch)}}
            << std::endl;
}

} // namespace

int main(int argc, char** argv) {
  int threads = 1;
  bool version = false;
  CLI::App app{"Times oneDNN alone at the shapes of the models, one JSON line "
               "each."};
  app.add_option("--threads", threads)
    ->check(CLI::Range(1, 1024))
    ->capture_default_str();
  app.add_flag("--version", version, "print the version of oneDNN and exit");
  CLI11_PARSE(app, argc, argv);
  print_version();
  if (version)
    return 0;
  troupe::use_threads(threads);
  for (const auto batch : {1, 64, 512})
    measure("mlp", batch, threads);
  measure("lenet", 64, threads);
}

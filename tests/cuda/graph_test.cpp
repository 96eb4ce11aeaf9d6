#include "card.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tests/tensors/graph_checks.hpp"
#include "troupe/tests/training/graph_log.hpp"
#include "troupe/tests/training/small_jobs.hpp"

namespace {

using namespace troupe;
using namespace troupe::test;

TEST_F(OnACard, GraphsHaveTheirGuarantees) {
  for (const auto& one : graph_checks) {
    SCOPED_TRACE(one.name);
    one.check(card);
  }
}

struct graph_job {
  models::model_description net;
  std::uint32_t replicas = 1;
  models::precision precision = models::precision::float32;
  fit_options options{.epochs = 2};
};

/// Trains on batches of 64 digits, of which the last is short.
std::string weights_of(const graph_job& x, graph_capture graph) {
  static const auto digits = data::digits({.examples = 1000, .seed = 5});
  const one_device_strategy where{"gpu:0", {.replicas = x.replicas}};
  const auto scope = where.scope();
  model it{x.net, adam{}, {.precision = x.precision}};
  auto options = x.options;
  options.graph = graph;
  it.fit(digits.shuffle(1000, 1).batch(64), options);
  return it.weights_sha256();
}

void expect_equal_bits(const graph_job& x) {
  SCOPED_TRACE(x.net.name + ", " + std::to_string(x.replicas) + " replicas, "
               + std::string{models::to_string(x.precision)});
  const graph_log log;
  EXPECT_EQ(weights_of(x, graph_capture::on),
            weights_of(x, graph_capture::off));
  EXPECT_EQ(log.lines, std::vector<std::string>{}) << "there was no graph";
}

TEST_F(OnACard, StepsWithAGraphHaveTheSameBits) {
  for (const char* name : {"mlp", "lenet"})
    for (const std::uint32_t replicas : {1, 2})
      for (const auto precision :
           {models::precision::float32, models::precision::bf16,
            models::precision::tf32})
        expect_equal_bits({models::find_model(name), replicas, precision});
}

TEST_F(OnACard, DropoutInAGraphHasTheSameBits) {
  for (const std::uint32_t replicas : {1, 2})
    expect_equal_bits({small_net(/*with_dropout*/ true), replicas});
}

TEST_F(OnACard, WeightsOfClassesInAGraphHaveTheSameBits) {
  graph_job x{models::lenet()};
  x.options.class_weights = {1, 2, 3, 0, 1, 2, 3, 1, 0.5f, 2};
  expect_equal_bits(x);
}

TEST_F(OnACard, TheMemoryOfAGraphIsReturned) {
  const one_device_strategy where{"gpu:0"};
  const auto scope = where.scope();
  model it{models::lenet(), adam{}};
  const auto before = backend().used(card).live;
  it.fit(digits_200().batch(20), {.graph = graph_capture::on});
  EXPECT_EQ(backend().used(card).live, before);
}

/// The label of step 6, which is a launch, is invalid.
TEST_F(OnACard, AnInvalidLabelInAGraphMakesNoUpdate) {
  const data::dataset batches{10, 10, [](std::uint64_t i) {
                                const auto first = std::int64_t(20 * i);
                                auto rows =
                                  digits_200().examples(first, first + 20);
                                rows.global_rows = 20;
                                if (i == 6) {
                                  rows.labels = rows.labels.clone();
                                  rows.labels.mutable_data<std::int32_t>()[7] =
                                    12;
                                }
                                return rows;
                              }};
  const one_device_strategy where{"gpu:0"};
  const auto scope = where.scope();
  model it{models::mlp(), adam{}}, other{models::mlp(), adam{}};
  EXPECT_EQ(error_of([&] { it.fit(batches, {.graph = graph_capture::on}); }),
            "label 12 in row 7; there are 10 classes, from 0");
  other.fit(batches, {.max_steps = 6});
  EXPECT_EQ(it.weights_sha256(), other.weights_sha256());
}

/// Scales by an element that it reads on the host.
class host_layer : public models::layer {
public:
  std::string_view type() const override { return "host_of_the_card_test"; }
  shape build(const shape& in, models::builder&) const override { return in; }
  tensor forward(const tensor& x, const models::layer_scope&) const override {
    return x * double(x.detach().to({}).data<float>()[300] + 1);
  }
};

TEST_F(OnACard, ALayerThatReadsElementsOnTheHostHasNoGraph) {
  models::register_layer<host_layer>();
  const graph_job x{
    {"own",
     {28, 28, 1},
     models::stack(host_layer{}, models::flatten{}, models::dense{10})}};
  const graph_log log;
  EXPECT_EQ(weights_of(x, graph_capture::on),
            weights_of(x, graph_capture::off));
  EXPECT_EQ(log.lines.size(), 1u);
}

} // namespace

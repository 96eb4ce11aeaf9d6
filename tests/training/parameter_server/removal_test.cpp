#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/parameter_server/server_nodes.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using parameter_server::fixed_shards_partitioner;
using test::make_nodes;

using troupe::test::patience;

struct held {
  std::uint64_t parts = 0, bytes = 0;
  friend bool operator==(const held&, const held&) = default;
};

/// Returns what all servers hold.
held held_by(const parameter_server_strategy& strategy) {
  held out;
  for (const auto& one : strategy.status()) {
    out.parts += one.parts;
    out.bytes += one.bytes;
  }
  return out;
}

/// Makes a variable, a table and their slots.
std::vector<server_variable> make_some(const parameter_server_strategy& on) {
  const std::vector<server_variable> out{
    on.make_variable("w", tensor::full({6, 2}, 1)),
    on.make_table("t", {.rows = 8, .row_elements = 2})};
  const server_optimizer optimizer{on, adam{}};
  const std::vector<parameter_gradient> gradients{
    tensor::full({6, 2}, 1), sparse_rows{{8, 2},
                                         tensor::of<std::int64_t>({2}, {0, 5}),
                                         tensor::full({2, 2}, 1)}};
  optimizer.apply(gradients, out);
  return out;
}

TEST(RemovedVariable, FreesItsPartsSlotsAndName) {
  runtime actors;
  const parameter_server_strategy on{
    actors, {.servers = 2, .partitioner = fixed_shards_partitioner(3)}};
  const auto other = on.make_variable("other", tensor::full({3}, 7));
  const auto before = held_by(on);
  for (int i = 0; i < 3; ++i) {
    const auto some = make_some(on);
    EXPECT_GT(held_by(on).bytes, before.bytes);
    for (const auto& one : some)
      on.remove_variable(one);
    EXPECT_EQ(held_by(on), before);
    EXPECT_THROW(on.variable("w"), std::invalid_argument);
    EXPECT_THROW(some[0].value(), std::logic_error);
    EXPECT_THROW(some[0].assign(1.0), std::logic_error);
    EXPECT_THROW(on.remove_variable(some[0]), std::logic_error);
  }
  EXPECT_TRUE(same_bits(other.value(), tensor::full({3}, 7)));
}

TEST(RemovedVariable, LeavesItsPlaceToTheNextOne) {
  runtime actors;
  const parameter_server_strategy on{
    actors,
    {.servers = 2,
     .placement = parameter_server::placement_policy::least_bytes}};
  const auto large = on.make_variable("large", tensor::zeros({100}));
  EXPECT_EQ(on.make_variable("a", tensor::zeros({10})).servers()[0], 1u);
  on.remove_variable(large);
  EXPECT_EQ(on.make_variable("b", tensor::zeros({5})).servers()[0], 0u);
}

TEST(RemovedVariable, IsNamedInTheErrorOfEachLaterUse) {
  runtime actors;
  const parameter_server_strategy on{actors}, other{actors};
  const auto v = on.make_variable("v", tensor::zeros({2}));
  const auto same = on.variable("v");
  EXPECT_THROW(other.remove_variable(v), std::logic_error);
  cluster_coordinator coordinator{on};
  coordinator.schedule([&] { on.remove_variable(v); });
  EXPECT_THROW(coordinator.join(), std::logic_error);
  on.remove_variable(v);
  try {
    v.value();
    FAIL() << "no error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "the variable \"v\" was removed; make it again");
  }
  EXPECT_THROW(same.value(), job_error); // the server has the last word
  coordinator.schedule([&] { same.assign_add(1.0); });
  EXPECT_THROW(coordinator.join(), job_error);
}

TEST(RemovedVariable, CannotBeRemovedAgainWhenItsNameHasALaterOne) {
  runtime actors;
  const parameter_server_strategy on{actors};
  const auto first = on.make_variable("v", tensor::zeros({2}));
  const auto second_handle = on.variable("v");
  on.remove_variable(first);
  const auto later = on.make_variable("v", tensor::full({2}, 7));
  EXPECT_EQ(test::text_of([&] { on.remove_variable(second_handle); }),
            "the variable \"v\" was removed before");
  EXPECT_THROW(on.make_variable("v", tensor::zeros({2})),
               std::invalid_argument);
  EXPECT_TRUE(same_bits(on.variable("v").value(), tensor::full({2}, 7)));
  on.remove_variable(later);
  on.make_variable("v", tensor::zeros({2}));
}

TEST(RemovedVariable, IsGoneFromAllCopies) {
  auto nodes = make_nodes(2);
  runtime actors;
  const parameter_server_strategy on{actors, test::on(nodes, 2)};
  const auto other = on.make_variable("other", tensor::full({3}, 7));
  const auto before = held_by(on);
  for (const auto& one : make_some(on))
    on.remove_variable(one);
  ASSERT_TRUE(on.wait_for_copies(patience));
  nodes.erase(nodes.begin()); // the other copy serves
  EXPECT_EQ(held_by(on), before);
  EXPECT_TRUE(same_bits(other.value(), tensor::full({3}, 7)));
  make_some(on);
}

TEST(VariableThatFails, LeavesNothing) {
  runtime actors;
  const parameter_server_strategy on{
    actors,
    {.servers = 2,
     .partitioner = fixed_shards_partitioner(2),
     .max_server_bytes = 100}};
  const auto before = held_by(on);
  // The second part is missing, of another shape, or too large.
  EXPECT_THROW(on.make_variable("v", tensor_spec{{4, 2}},
                                [](const parameter_server::row_range& rows) {
                                  if (rows.begin > 0)
                                    throw std::runtime_error("disk error");
                                  return tensor::zeros({rows.size(), 2});
                                }),
               std::runtime_error);
  EXPECT_EQ(held_by(on), before);
  EXPECT_THROW(on.make_variable(
                 "v", tensor_spec{{4, 2}},
                 [](const parameter_server::row_range& rows) {
                   return tensor::zeros({rows.size(), rows.begin > 0 ? 3 : 2});
                 }),
               std::invalid_argument);
  EXPECT_EQ(held_by(on), before);
  on.make_variable("small", tensor::zeros({4}));
  const auto with_small = held_by(on);
  EXPECT_THROW(on.make_variable("v", tensor::zeros({50})), job_error);
  EXPECT_EQ(held_by(on), with_small);
  EXPECT_EQ(on.make_variable("v", tensor::zeros({4})).name(), "v");
}

TEST(RemovedModel, FreesItsVariablesWithItsEnd) {
  using namespace models;
  const model_description net{
    .name = "net", .input = {2}, .layers = stack(models::dense{100})};
  const auto batches =
    data::dataset{tensor::zeros({4, 2}), tensor::zeros({4}, dtype::int32), 3}
      .batch(2);
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2}};
  cluster_coordinator coordinator{on};
  std::string first;
  for (int i = 0; i < 3; ++i) {
    server_model trained{on, "net", net, adam{}};
    trained.fit(coordinator, batches);
    if (i == 0)
      first = trained.weights_sha256();
    EXPECT_EQ(trained.weights_sha256(), first);
    EXPECT_EQ(held_by(on).parts, 1u);
  }
  EXPECT_EQ(held_by(on), (held{0, 0}));
}

TEST(ModelThatFails, LeavesNothing) {
  using namespace models;
  const model_description net{
    .name = "net",
    .input = {2},
    .layers = stack(category_embedding{50, 4}, models::dense{100}),
    .categories = 1};
  runtime actors;
  const parameter_server_strategy on{actors, {.max_server_bytes = 100}};
  EXPECT_THROW((server_model{on, "net", net, adam{}}), job_error);
  EXPECT_EQ(held_by(on), (held{0, 0}));
}

} // namespace
} // namespace troupe

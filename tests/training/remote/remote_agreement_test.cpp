#include "nodes.hpp"
#include "troupe/training/model.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

// The workers of a client compare what their factories have made: each value of
// the models, optimizers and datasets.

namespace {

using namespace troupe;
using namespace troupe::test;

/// What the factory of a node makes.
struct node_parts {
  models::model_description net = small_net();
  update_rule rule = adam{};
  model_options options{.seed = 5};
  update_rule second = sgd{.momentum = 0.9F};
  data::dataset batches = digits_200().batch(50);
  bool sets_a_weight = false;
};

steps_factory factory_of(const node_parts& first, const node_parts& others) {
  return [first, others](const strategy& on, const std::string&) {
    const auto& from = on.worker() == 0 ? first : others;
    struct components {
      explicit components(const strategy& on, const node_parts& from)
        : net{from.net, from.rule, from.options},
          second{from.second},
          batches{on.distribute(from.batches)} {}
      model net;
      optimizer second;
      distributed_dataset batches;
    };
    const auto made = std::make_shared<components>(on, from);
    if (from.sets_a_weight) {
      const auto& one = made->net.variables()[0];
      made->net.set_weights(one.name(), tensor::full(one.dims(), 0.5));
    }
    step_functions out;
    out.call["steps"] = [made](const tensors&) -> tensors {
      return {tensor::full({}, double(made->net.steps()))};
    };
    return out;
  };
}

/// Starts two nodes. @returns the error, or "no error".
std::string error_of(const std::function<void(node_parts&)>& change) {
  node_parts other;
  change(other);
  const several_nodes nodes{2, "net", factory_of({}, other)};
  runtime here;
  try {
    const remote_strategy on{here, nodes.addresses, {.steps = "net"}};
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::invalid);
    const auto begin = "node " + nodes.addresses[1]
                       + " (worker 1), starting \"net\": its step functions "
                         "have ";
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with(begin)) << text;
    return text.substr(std::min(text.size(), begin.size()));
  }
  return "no error";
}

TEST(RemoteAgreement, EqualNodesAreAccepted) {
  EXPECT_EQ(error_of([](node_parts&) {}), "no error");
}

TEST(RemoteAgreement, OtherModelsAreRefused) {
  EXPECT_EQ(error_of([](auto& x) { x.options.seed = 6; }),
            "\"seed: 6\", but worker 0 has \"seed: 5\"");
  EXPECT_EQ(error_of([](auto& x) {
              x.options.precision = models::precision::bf16;
            }).substr(0, 17),
            "\"precision: bf16,");
  EXPECT_EQ(error_of([](auto& x) { x.options.loss = "mean_squared_error"; }),
            "\"loss: mean_squared_error\", but worker 0 has \"loss: "
            "softmax_cross_entropy\"");
  const auto layers = error_of([](auto& x) { x.net = small_net(true); });
  EXPECT_TRUE(contains(layers, "\"layer ")) << layers;
}

TEST(RemoteAgreement, NumbersOfUpdateRulesAreComparedExactly) {
  EXPECT_TRUE(
    contains(error_of([](auto& x) { x.rule = adam{.epsilon = 1e-7F}; }),
             "epsilon=1e-07"));
  EXPECT_TRUE(
    contains(error_of([](auto& x) { x.rule = adam{.epsilon = 1.0000001e-8F}; }),
             "epsilon=1e-08"));
}

/// An optimizer that the factory makes itself.
TEST(RemoteAgreement, OtherOptimizersAreRefused) {
  const auto momentum =
    error_of([](auto& x) { x.second = sgd{.momentum = 0.8F}; });
  EXPECT_TRUE(contains(momentum, "\"optimizer: sgd momentum=0.8")) << momentum;
  EXPECT_TRUE(contains(momentum, "\"optimizer: sgd momentum=0.9")) << momentum;
}

/// The nodes train copies of one model, so their first values must be equal.
TEST(RemoteAgreement, OtherInitialWeightsAreRefused) {
  const auto text = error_of([](auto& x) { x.sets_a_weight = true; });
  EXPECT_TRUE(text.starts_with("\"model: small, hash of its initial values: "))
    << text;
}

TEST(RemoteAgreement, OtherDataIsRefused) {
  const auto first =
    error_of([](auto& x) { x.batches = digits_200().shuffle().batch(50); });
  EXPECT_TRUE(first.starts_with("\"hash of the first batch: 50 examples, "))
    << first;
  EXPECT_EQ(error_of([](auto& x) { x.batches = digits_200().batch(40); }),
            "\"batches per epoch: 5\", but worker 0 has \"batches per epoch: "
            "4\"");
}

/// A node that joins gets the values of the others, so it may have made other
/// ones.
TEST(RemoteAgreement, ANodeThatIsAddedIsComparedToo) {
  const auto added = [](const std::function<void(node_parts&)>& change) {
    several_nodes nodes{3, "net", factory_of({}, {})};
    node_parts other;
    change(other);
    const node_of_steps last{
      "net", [other](const strategy& on, const std::string& argument) {
        return factory_of(other, other)(on, argument);
      }};
    runtime here;
    remote_strategy on{here, nodes.addresses, {.steps = "net"}};
    nodes.nodes[2].reset();
    on.call("steps");
    try {
      on.add(last.server->address());
    } catch (const job_error& e) {
      return std::string{e.what()};
    }
    return std::string{"no error"};
  };
  EXPECT_EQ(added([](auto& x) { x.sets_a_weight = true; }), "no error");
  const auto text = added([](auto& x) { x.second = sgd{.momentum = 0.8F}; });
  EXPECT_TRUE(contains(text, "cannot be added: its step functions have "
                             "\"optimizer: sgd momentum=0.8"))
    << text;
}

} // namespace

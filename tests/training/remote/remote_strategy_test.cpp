#include "nodes.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/net/security/certificates.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace {

using namespace troupe;
using namespace troupe::test;

constexpr std::int64_t global_batch = 16;

/// Step functions with a custom loop and a fit. They share the network, the
/// optimizer and the data that the factory makes.
step_functions small_training(const strategy&, const std::string&) {
  struct parts {
    model net{small_net(true), adam{}, {.seed = 5}};
    optimizer by{adam{}};
  };
  const auto it = std::make_shared<parts>();
  step_functions x;
  x.run["train"] = [it](replica_context& self, const tensors& in) -> tensors {
    tape t;
    const auto scores = it->net(in[0], {.training = true});
    auto loss = models::cross_entropy(scores, in[1]) / global_batch;
    it->by.apply(self.all_reduce(sum, t.gradient(loss, it->net.variables())),
                 it->net.variables());
    return {loss};
  };
  x.call["fit"] = [it](const tensors&) -> tensors {
    it->net.fit(digits_200().shuffle().batch(global_batch), {.epochs = 2});
    return {bytes_of(it->net.weights_sha256())};
  };
  x.call["weights"] = [it](const tensors&) -> tensors {
    return {bytes_of(it->net.weights_sha256())};
  };
  return x;
}

/// Returns the batches of a strategy as inputs of "train".
template <class Train>
void each_batch(const strategy& on, Train train) {
  for (const auto& step :
       on.distribute(digits_200().shuffle().batch(global_batch))) {
    std::vector<tensors> inputs;
    for (const auto& one : step)
      inputs.push_back({one.inputs, one.labels});
    train(per_replica<tensors>{std::move(inputs)});
  }
}

struct trained {
  std::string weights;
  std::vector<float> losses;
  friend bool operator==(const trained&, const trained&) = default;
};

void add_to(std::vector<float>& all, const tensor& x) {
  const auto values = x.data<float>();
  all.insert(all.end(), values.begin(), values.end());
}

trained trained_here(std::uint32_t replicas) {
  const auto on = turns(replicas);
  const auto scope = on.scope();
  auto does = small_training(on, "");
  trained out;
  each_batch(on, [&](const per_replica<tensors>& in) {
    const auto losses = on.run(
      [&](replica_context& self, const tensors& mine) {
        return does.run["train"](self, mine)[0];
      },
      in);
    for (const auto& x : losses)
      add_to(out.losses, x);
  });
  out.weights = text_of(does.call["weights"]({})[0]);
  return out;
}

trained trained_there(remote_strategy& on) {
  trained out;
  each_batch(turns(on.num_replicas_in_sync()),
             [&](const per_replica<tensors>& in) {
               for (const auto& x : on.run("train", in))
                 add_to(out.losses, x[0]);
             });
  const auto all = on.call("weights");
  out.weights = text_of(all[0][0]);
  for (const auto& one : all)
    EXPECT_EQ(text_of(one[0]), out.weights);
  return out;
}

TEST(RemoteStrategy, WeightsAreBitwiseEqualToOneDevice) {
  for (const auto& [nodes, each] :
       {std::pair{1u, 2u}, {2u, 1u}, {3u, 1u}, {2u, 2u}}) {
    SCOPED_TRACE(std::to_string(nodes) + " nodes with " + std::to_string(each));
    const several_nodes there{nodes, "small", small_training};
    runtime here;
    remote_strategy on{
      here, there.addresses, {.steps = "small", .devices = cpus(each)}};
    EXPECT_EQ(on.num_replicas_in_sync(), nodes * each);
    EXPECT_EQ(on.workers(), nodes);
    EXPECT_EQ(on.transport(), nodes == 1 ? "none" : "shm");
    EXPECT_EQ(trained_there(on), trained_here(nodes * each));
  }
}

TEST(RemoteStrategy, FitOnNodesGivesEqualWeights) {
  std::string expected;
  {
    const auto on = turns(2);
    const auto scope = on.scope();
    expected = text_of(small_training(on, "").call["fit"]({})[0]);
  }
  const several_nodes there{2, "small", small_training};
  runtime here;
  remote_strategy on{here,
                     there.addresses,
                     {.steps = "small", .transport = transport_kind::tcp}};
  EXPECT_EQ(on.transport(), "tcp");
  for (const auto& one : on.call("fit"))
    EXPECT_EQ(text_of(one[0]), expected);
}

TEST(RemoteStrategy, InputsAndResultsArePerReplica) {
  const several_nodes there{2, "echo", echo};
  runtime here;
  remote_strategy on{here,
                     there.addresses,
                     {.steps = "echo", .argument = "so ", .devices = cpus(2)}};
  std::vector<tensors> given{{tensor::full({2}, 7)},
                             {},
                             {tensor::full({}, 1), tensor{}},
                             {tensor::full({3}, 9, dtype::int64)}};
  const auto got = on.run("who", per_replica<tensors>{given});
  ASSERT_EQ(got.size(), 4u);
  for (std::size_t id = 0; id < 4; ++id) {
    ASSERT_EQ(got[id].size(), given[id].size() + 1);
    EXPECT_EQ(got[id][0].item<float>(), float(id));
    for (std::size_t i = 0; i < given[id].size(); ++i)
      EXPECT_EQ(bool(got[id][i + 1]), bool(given[id][i]));
  }
  EXPECT_TRUE(same_bits(got[3][1], given[3][0]));

  const auto alike = on.run("who", {tensor::full({2}, 0.5)});
  const auto total = on.reduce(sum, alike);
  EXPECT_EQ(total[0].item<float>(), 6.0f);
  EXPECT_TRUE(same_bits(total[1], tensor::full({2}, 2)));
  EXPECT_EQ(on.reduce(mean, alike)[0].item<float>(), 1.5f);
  EXPECT_THROW(on.reduce(sum, got), std::logic_error);

  const auto said = on.call("said", {tensor::full({}, 3)});
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(text_of(said[0][0]) + text_of(said[1][0]), "so 0so 1");
  EXPECT_EQ(said[1][1].item<float>(), 3.0f);
}

TEST(RemoteStrategy, NodesAreSharedAndKeepNoRoles) {
  const several_nodes there{2, "small", small_training};
  runtime here;
  remote_node watcher{here, there.addresses[0]};
  {
    remote_strategy one{here, there.addresses, {.steps = "small"}};
    remote_strategy other{here, there.addresses, {.steps = "small"}};
    EXPECT_EQ(watcher.who().running.size(), 2u);
    trained first;
    std::thread beside{[&] { first = trained_there(one); }};
    const auto second = trained_there(other);
    beside.join();
    EXPECT_EQ(first, second);
    EXPECT_EQ(one.node(1).who().running.size(), 2u);
    EXPECT_THROW(one.node(2), std::logic_error);
  }
  expect_no_roles_on(watcher);
}

/// Nodes and client that authenticate each other.
void expect_same_bits(const net::credentials& of_nodes,
                      const net::credentials& of_client, transport_kind by,
                      const std::string& transport) {
  const several_nodes there{
    2, "small", small_training, {.credentials = of_nodes}};
  runtime here;
  remote_strategy on{
    here,
    there.addresses,
    {.steps = "small", .transport = by, .credentials = of_client}};
  EXPECT_EQ(on.transport(), transport);
  EXPECT_EQ(trained_there(on), trained_here(2));
}

TEST(RemoteStrategy, TrainsOnNodesThatRequireASecret) {
  const net::credentials job{.secret = "open sesame"};
  expect_same_bits(job, job, transport_kind::automatic, "shm");
}

using RemoteStrategyOverTls = net::testing::certificate_test;

TEST_F(RemoteStrategyOverTls, WeightsAreBitwiseEqual) {
  const auto has = [this](const std::string& name) {
    return net::credentials{.tls = std::make_shared<const files>(good(name))};
  };
  const auto node = has("node"), client = has("client");
  expect_same_bits(node, client, transport_kind::tls, "tls");
  expect_same_bits(node, client, transport_kind::automatic, "shm");
}

} // namespace

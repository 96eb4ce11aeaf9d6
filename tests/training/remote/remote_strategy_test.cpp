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

/// Returns step functions: "train" makes a step of a custom loop, "fit" calls
/// `fit`, and "weights" returns the hash of the weights. All functions share
/// one model and one optimizer.
step_functions small_training(const strategy&, const std::string&) {
  struct components {
    model net{small_net(true), adam{}, {.seed = 5}};
    optimizer net_optimizer{adam{}};
  };
  const auto shared = std::make_shared<components>();
  step_functions functions;
  functions.run["train"] = [shared](replica_context& self,
                                    const tensors& in) -> tensors {
    tape t;
    const auto scores = shared->net(in[0], {.training = true});
    auto loss = models::cross_entropy(scores, in[1]) / global_batch;
    shared->net_optimizer.apply(
      self.all_reduce(sum, t.gradient(loss, shared->net.variables())),
      shared->net.variables());
    return {loss};
  };
  functions.call["fit"] = [shared](const tensors&) -> tensors {
    shared->net.fit(digits_200().shuffle().batch(global_batch), {.epochs = 2});
    return {bytes_of(shared->net.weights_sha256())};
  };
  functions.call["weights"] = [shared](const tensors&) -> tensors {
    return {bytes_of(shared->net.weights_sha256())};
  };
  return functions;
}

/// Calls `train` with each batch of an epoch, divided over the replicas of
/// `on`. Each replica's inputs are its examples and their labels.
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

trained train_locally(std::uint32_t replicas) {
  const auto strategy = turns(replicas);
  const auto scope = strategy.scope();
  auto does = small_training(strategy, "");
  trained out;
  each_batch(strategy, [&](const per_replica<tensors>& inputs) {
    const auto losses = strategy.run(
      [&](replica_context& self, const tensors& mine) {
        return does.run["train"](self, mine)[0];
      },
      inputs);
    for (const auto& x : losses)
      add_to(out.losses, x);
  });
  out.weights = text_of(does.call["weights"]({})[0]);
  return out;
}

trained train_remotely(remote_strategy& remote) {
  trained out;
  each_batch(turns(remote.num_replicas_in_sync()),
             [&](const per_replica<tensors>& in) {
               for (const auto& x : remote.run("train", in))
                 add_to(out.losses, x[0]);
             });
  const auto all = remote.call("weights");
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
    remote_strategy remote{
      here, there.addresses, {.steps = "small", .devices = cpus(each)}};
    EXPECT_EQ(remote.num_replicas_in_sync(), nodes * each);
    EXPECT_EQ(remote.workers(), nodes);
    EXPECT_EQ(remote.transport(), nodes == 1 ? "none" : "shm");
    EXPECT_EQ(train_remotely(remote), train_locally(nodes * each));
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
  remote_strategy remote{
    here,
    there.addresses,
    {.steps = "echo", .argument = "so ", .devices = cpus(2)}};
  std::vector<tensors> inputs{{tensor::full({2}, 7)},
                              {},
                              {tensor::full({}, 1), tensor{}},
                              {tensor::full({3}, 9, dtype::int64)}};
  const auto got = remote.run("who", per_replica<tensors>{inputs});
  ASSERT_EQ(got.size(), 4u);
  for (std::size_t id = 0; id < 4; ++id) {
    ASSERT_EQ(got[id].size(), inputs[id].size() + 1);
    EXPECT_EQ(got[id][0].item<float>(), float(id));
    for (std::size_t i = 0; i < inputs[id].size(); ++i)
      EXPECT_EQ(bool(got[id][i + 1]), bool(inputs[id][i]));
  }
  EXPECT_TRUE(same_bits(got[3][1], inputs[3][0]));

  const auto alike = remote.run("who", {tensor::full({2}, 0.5)});
  const auto total = remote.reduce(sum, alike);
  EXPECT_EQ(total[0].item<float>(), 6.0f);
  EXPECT_TRUE(same_bits(total[1], tensor::full({2}, 2)));
  EXPECT_EQ(remote.reduce(mean, alike)[0].item<float>(), 1.5f);
  EXPECT_THROW(remote.reduce(sum, got), std::logic_error);

  const auto said = remote.call("said", {tensor::full({}, 3)});
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(text_of(said[0][0]) + text_of(said[1][0]), "so 0so 1");
  EXPECT_EQ(said[1][1].item<float>(), 3.0f);
}

TEST(RemoteStrategy, NodesAreSharedAndKeepNoRoles) {
  const several_nodes cluster_nodes{2, "small", small_training};
  runtime here;
  remote_node watcher{here, cluster_nodes.addresses[0]};
  {
    remote_strategy first_client{
      here, cluster_nodes.addresses, {.steps = "small"}};
    remote_strategy other{here, cluster_nodes.addresses, {.steps = "small"}};
    EXPECT_EQ(watcher.info().running.size(), 2u);
    trained first;
    std::thread beside{[&] { first = train_remotely(first_client); }};
    const auto second = train_remotely(other);
    beside.join();
    EXPECT_EQ(first, second);
    EXPECT_EQ(first_client.node(1).info().running.size(), 2u);
    EXPECT_THROW(first_client.node(2), std::logic_error);
  }
  expect_no_roles_on(watcher);
}

/// Trains on two nodes with these credentials and this transport. Expects that
/// the weights equal those of a training in one process.
void expect_equal_weights(const net::credentials& of_nodes,
                          const net::credentials& of_client,
                          transport_kind transport_used,
                          const std::string& transport) {
  const several_nodes cluster_nodes{
    2, "small", small_training, {.connection = {.credentials = of_nodes}}};
  runtime here;
  remote_strategy remote{here,
                         cluster_nodes.addresses,
                         {.steps = "small",
                          .transport = transport_used,
                          .connection = {.credentials = of_client}}};
  EXPECT_EQ(remote.transport(), transport);
  EXPECT_EQ(train_remotely(remote), train_locally(2));
}

TEST(RemoteStrategy, TrainsOnNodesThatRequireASecret) {
  const net::credentials job{.secret = "open sesame"};
  expect_equal_weights(job, job, transport_kind::automatic, "shm");
}

using RemoteStrategyOverTls = net::testing::certificate_test;

TEST_F(RemoteStrategyOverTls, WeightsAreBitwiseEqual) {
  const auto has = [this](const std::string& name) {
    return net::credentials{.tls = std::make_shared<const files>(good(name))};
  };
  const auto node = has("node"), client = has("client");
  expect_equal_weights(node, client, transport_kind::tls, "tls");
  expect_equal_weights(node, client, transport_kind::automatic, "shm");
}

} // namespace

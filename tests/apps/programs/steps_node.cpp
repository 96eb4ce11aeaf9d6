// A node for tests of clients. Its first line of output ends with its address.
//
//   steps_node
//
// The node registers the step functions "small". Its call "fit" trains a small
// network on generated digits for two epochs and returns the SHA-256 of the
// weights. Its run "sum" sums ones twice; between the two sums, the replica
// with the number inputs[0] raises the signal inputs[1].

#include <csignal>
#include <iostream>
#include <troupe/actors/node/node_server.hpp>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

tensors fit(const tensors&) {
  model trained{models::mlp(), adam{}, {.seed = 5}};
  const auto data = data::digits({.examples = 200, .seed = 3});
  trained.fit(data.shuffle(data::whole_dataset, 1).batch(16), {.epochs = 2});
  const auto text = trained.weights_sha256();
  return {tensor::of<std::uint8_t>(
    {static_cast<std::int64_t>(text.size())},
    std::vector<std::uint8_t>(text.begin(), text.end()))};
}

tensors sum_ones(replica_context& self, const tensors& inputs) {
  const auto ones = tensor::full({1 << 20}, 1);
  self.all_reduce(sum, ones);
  if (inputs[0].item<float>() == static_cast<float>(self.replica_id()))
    ::raise(static_cast<int>(inputs[1].item<float>()));
  return {self.all_reduce(sum, ones).range(0, 1)};
}

} // namespace

int main() {
  runtime actors;
  register_steps(actors, "small",
                 {.run = {{"sum", sum_ones}}, .call = {{"fit", fit}}});
  node_server node{actors};
  std::cout << "listening on " << node.address() << std::endl;
  return node.wait_for_stop(std::chrono::minutes{10}) ? 0 : 1;
}

// A node for tests of clients. Its first line of output ends with its address.
//
//   steps_node [CLIENT]
//
// With the address of a client, the node announces itself there as a spare, and
// prints a line for each event.
//
// The node registers the step functions "small". They share a small network.
// The run "train" makes a step with the inputs (images, labels) of a replica.
// The run "sum" sums ones twice. The call "fit" trains for an epoch, and the
// call "weights" returns the SHA-256 of the weights.
//
// The last two inputs of "train", "sum" and "fit" are a number and a signal.
// The replica with this number raises the signal, for "fit" the worker with
// this number in the tenth step of the fit. A node that has taken over replicas
// of another one raises no signal.

#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <troupe/actors/node/node_server.hpp>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

constexpr std::uint64_t signal_step = 9;

struct trainer {
  explicit trainer(const strategy& on) : on{on} {}

  /// @param inputs the last two are a number and a signal.
  void raise_if(std::uint32_t number, const tensors& inputs) const {
    const auto at = inputs.end() - 2;
    if (at[0].item<float>() == static_cast<float>(number)
        && on.local_replica_ids().size() == 1)
      ::raise(static_cast<int>(at[1].item<float>()));
  }

  tensors train(replica_context& self, const tensors& inputs) {
    tape t;
    auto loss =
      models::cross_entropy(net(inputs[0], {.training = true}), inputs[1]) / 16;
    const auto gradients = t.gradient(loss, net.variables());
    raise_if(self.replica_id(), inputs);
    net.optimizer().apply(self.all_reduce(sum, gradients), net.variables());
    return {loss.detach()};
  }

  tensors sum_ones(replica_context& self, const tensors& inputs) const {
    const auto ones = tensor::full({1 << 20}, 1);
    self.all_reduce(sum, ones);
    raise_if(self.replica_id(), inputs);
    return {self.all_reduce(sum, ones).range(0, 1)};
  }

  tensors fit(const tensors& inputs) {
    fit_options how{.epochs = 1};
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (x.step % 13 == signal_step)
        raise_if(on.worker(), inputs);
    }});
    const auto data = data::digits({.examples = 200, .seed = 3});
    net.fit(data.shuffle(data::whole_dataset, 1).batch(16), how);
    return {};
  }

  tensors weights() const {
    const auto text = net.weights_sha256();
    return {tensor::of<std::uint8_t>(
      {static_cast<std::int64_t>(text.size())},
      std::vector<std::uint8_t>(text.begin(), text.end()))};
  }

  const strategy on;
  model net{models::mlp(), adam{}, {.seed = 5}};
};

step_functions make_functions(const strategy& on, const std::string&) {
  const auto shared = std::make_shared<trainer>(on);
  step_functions out;
  out.run["train"] = [=](replica_context& self, const tensors& inputs) {
    return shared->train(self, inputs);
  };
  out.run["sum"] = [=](replica_context& self, const tensors& inputs) {
    return shared->sum_ones(self, inputs);
  };
  out.call["fit"] = [=](const tensors& x) { return shared->fit(x); };
  out.call["weights"] = [=](const tensors&) { return shared->weights(); };
  return out;
}

} // namespace

int main(int argc, char** argv) {
  runtime actors;
  register_steps(actors, "small", make_functions);
  std::mutex output; // so that the first line is that of the address
  std::unique_lock hold{output};
  node_server node{actors,
                   {.join = argc > 1 ? argv[1] : "",
                    .on_join_event = [&](const std::string& text) {
                      const std::lock_guard lock{output};
                      std::cout << text << std::endl;
                    }}};
  std::cout << "listening on " << node.address() << std::endl;
  hold.unlock();
  try {
    return node.wait_for_stop(std::chrono::minutes{10}) ? 0 : 1;
  } catch (const job_error& e) {
    std::cout << e.what() << std::endl;
    return 1;
  }
}

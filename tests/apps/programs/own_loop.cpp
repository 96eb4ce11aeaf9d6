// Trains with a loop of its own, which reduces the loss in each step:
//
//   own_loop one_device REPLICAS [EPOCHS] | own_loop workers [EPOCHS]
//   own_loop two_sums
//
// The program prints "epoch E/6" to standard error after each of 6 epochs. At
// the end it prints the hash of the weights and the exact sum of all reduced
// losses. A process that has joined the job has not seen all of them, and
// prints no sum. With two_sums, worker 1 of two kills itself in a step after a
// sum of ones; the program prints the second sum of the step.

#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

void train(const strategy& strategy, std::uint64_t epochs) {
  const auto scope = strategy.scope();
  model model{models::mlp(), adam{}};
  optimizer second{sgd{.learning_rate = 1e-4f, .momentum = 0.9f}};
  const auto batches =
    strategy.distribute(data::digits({.examples = 1'400}).shuffle().batch(24));
  double all_losses = 0;
  bool has_joined = false;
  // [doc:begin loop]
  for (auto& step : strategy.loop("train", batches, {.epochs = epochs})) {
    const auto loss = strategy.run(
      [&](replica_context& replica, const troupe::batch& b) {
        tape tape;
        const auto scores = model(b.inputs, {.training = true});
        auto loss = cross_entropy(scores, b.labels) / b.global_rows;
        const auto gradients = tape.gradient(loss, model.variables());
        model.optimizer().apply(replica.all_reduce(sum, gradients),
                                model.variables());
        second.apply(replica.all_reduce(mean, gradients), model.variables());
        return loss;
      },
      step.values);
    // [doc:end]
    has_joined |= step.is_first_here && step.number > 0;
    if (step.index == 0 && step.epoch > 0)
      std::cerr << "epoch " << step.epoch << '/' << epochs << '\n'
                << std::flush;
    all_losses += double(strategy.reduce(sum, loss, {0}).item<float>());
  }
  std::cerr << "epoch " << epochs << '/' << epochs << '\n' << std::flush;
  // A process that joins after the loop gets the weights here.
  model.evaluate(data::digits({.examples = 100}).batch(100));
  if (has_joined || all_losses == 0)
    std::printf("weights %s\n", model.weights_sha256().c_str());
  else
    std::printf("weights %s losses %a\n", model.weights_sha256().c_str(),
                all_losses);
}

void sum_twice(const strategy& strategy) {
  const auto sums = strategy.run([&](replica_context& replica) {
    const auto ones = tensor::full({2}, 1);
    replica.all_reduce(sum, ones);
    if (strategy.worker() == 1)
      std::raise(SIGKILL);
    return replica.all_reduce(sum, ones);
  });
  for (const auto& one : sums)
    std::printf("sum %g %g\n", double(one.data<float>()[0]),
                double(one.data<float>()[1]));
}

} // namespace

int main(int argc, char** arguments) {
  const std::string how = argc > 1 ? arguments[1] : "workers";
  const int epochs_at = how == "one_device" ? 3 : 2;
  try {
    const auto epochs = argc > epochs_at ? std::stoul(arguments[epochs_at]) : 6;
    if (how == "one_device") {
      train(
        one_device_strategy{
          "cpu:0", {.replicas = std::uint32_t(std::stoul(arguments[2]))}},
        epochs);
      return 0;
    }
    runtime actors;
    const multi_worker_mirrored_strategy workers{actors};
    if (how == "two_sums")
      sum_twice(workers);
    else
      train(workers, epochs);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "failed: " << e.what() << '\n';
    return 1;
  }
}

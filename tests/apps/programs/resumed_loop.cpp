// Makes the steps [BEGIN, END) of a custom training loop, saves the model in
// FILE, and prints the hash of its weights:
// resumed_loop one_device|mirrored|workers momentum|adam BEGIN END FILE [loop]
// If BEGIN is 0, the loop begins with a new model, else with that in FILE. With
// "loop", the steps are iterations of one strategy.loop over two epochs.

#include <iostream>
#include <string>
#include <troupe/troupe.hpp>

namespace {

troupe::strategy strategy_of(troupe::runtime& runtime,
                             const std::string& name) {
  if (name == "workers")
    return troupe::multi_worker_mirrored_strategy{runtime};
  if (name == "mirrored")
    return troupe::mirrored_strategy{runtime, {"cpu:0", "cpu:1"}};
  return troupe::one_device_strategy{"cpu:0", {.replicas = 2}};
}

troupe::update_rule rule_of(const std::string& name) {
  if (name == "adam")
    return troupe::adam{};
  return troupe::sgd{.learning_rate = 0.01f, .momentum = 0.9f};
}

/// Makes the steps up to `end` in iterations of a loop that begins where the
/// training of the model has ended.
void train_in_loop(troupe::model& model, std::uint64_t end) {
  constexpr std::uint64_t epochs = 2;
  const auto strategy = model.made_in();
  const auto batches = strategy.distribute(
    troupe::data::digits({.examples = 640}).shuffle().batch(64));
  // [doc:begin first]
  const auto done = model.steps(); // an epoch has 10 batches
  const troupe::data::position first{done / 10, done % 10};
  for (auto& step :
       strategy.loop("train", batches, {.epochs = epochs, .first = first})) {
    // [doc:end]
    if (step.number == end)
      break;
    strategy.run(
      [&](troupe::replica_context& replica, const troupe::batch& b) {
        troupe::tape tape;
        const auto loss =
          troupe::cross_entropy(model(b.inputs), b.labels) / b.global_rows;
        model.optimizer().apply(
          replica.all_reduce(troupe::sum,
                             tape.gradient(loss, model.variables())),
          model.variables());
      },
      step.values);
  }
}

} // namespace

int main(int count, char** arguments) {
  troupe::runtime runtime;
  const auto strategy = strategy_of(runtime, arguments[1]);
  const auto rule = rule_of(arguments[2]);
  const std::uint64_t begin = std::stoul(arguments[3]),
                      end = std::stoul(arguments[4]);
  const std::string file{arguments[5]};

  const auto scope = strategy.scope();
  if (count > 6) {
    auto model = begin == 0 ? troupe::model{troupe::models::mlp(), rule}
                            : troupe::model::load(file);
    train_in_loop(model, end);
    model.save(file);
    std::cout << model.weights_sha256() << '\n';
    return 0;
  }
  // [doc:begin resume]
  auto model = begin == 0 ? troupe::model{troupe::models::mlp(), rule}
                          : troupe::model::load(file);
  const auto digits = troupe::data::digits({.examples = 640});
  const auto batches = strategy.distribute(digits.shuffle().batch(64));
  while (model.steps() < end) {
    const auto step = model.steps(); // an epoch has 10 batches
    for (const auto& batch : batches.iterate({step / 10, step % 10})) {
      if (model.steps() == end)
        break;
      strategy.run(
        [&](troupe::replica_context& replica, const troupe::batch& b) {
          troupe::tape tape;
          const auto loss =
            troupe::cross_entropy(model(b.inputs), b.labels) / b.global_rows;
          model.optimizer().apply(
            replica.all_reduce(troupe::sum,
                               tape.gradient(loss, model.variables())),
            model.variables());
        },
        batch);
    }
  }
  model.save(file);
  // [doc:end]
  std::cout << model.weights_sha256() << '\n';
}

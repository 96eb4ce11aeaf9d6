// Makes the steps [BEGIN, END) of a custom training loop, saves the model in
// FILE, and prints the hash of its weights:
// resumed_loop one_device|mirrored momentum|adam BEGIN END FILE
// If BEGIN is 0, the loop begins with a new model, else with that in FILE.

#include <iostream>
#include <string>
#include <troupe/troupe.hpp>

namespace {

troupe::strategy strategy_of(troupe::runtime& runtime,
                             const std::string& name) {
  if (name == "mirrored")
    return troupe::mirrored_strategy{runtime, {"cpu:0", "cpu:1"}};
  return troupe::one_device_strategy{"cpu:0", {.replicas = 2}};
}

troupe::update_rule rule_of(const std::string& name) {
  if (name == "adam")
    return troupe::adam{};
  return troupe::sgd{.learning_rate = 0.01f, .momentum = 0.9f};
}

} // namespace

int main(int, char** arguments) {
  troupe::runtime runtime;
  const auto strategy = strategy_of(runtime, arguments[1]);
  const auto rule = rule_of(arguments[2]);
  const std::uint64_t begin = std::stoul(arguments[3]),
                      end = std::stoul(arguments[4]);
  const std::string file{arguments[5]};

  const auto scope = strategy.scope();
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

// Trains with a user's own loop. Each of two devices holds a replica.

#include <iostream>
#include <troupe/troupe.hpp>

int main() {
  troupe::runtime runtime;
  troupe::mirrored_strategy strategy{runtime, {"cpu:0", "cpu:1"}};
  const auto scope = strategy.scope();
  troupe::model model{troupe::models::mlp(),
                      troupe::adam{.learning_rate = 1e-3f}};

  const auto digits = troupe::data::digits({.examples = 6'400});
  const auto batches = strategy.distribute(digits.shuffle().batch(64));
  int step = 0;
  // [doc:begin loop]
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& batch : batches) {
      const auto loss = strategy.run(
        [&](troupe::replica_context& replica, const troupe::batch& b) {
          troupe::tape tape;
          const auto scores = model(b.inputs, {.training = true});
          auto loss = troupe::cross_entropy(scores, b.labels) / b.global_rows;
          auto gradients = replica.all_reduce(
            troupe::sum, tape.gradient(loss, model.variables()));
          model.optimizer().apply(gradients, model.variables());
          return loss;
        },
        batch);
      if (++step % 20 == 0)
        std::cout << "step " << step << "  loss "
                  << strategy.reduce(troupe::sum, loss, {0}) << '\n';
    }
  // [doc:end]
}

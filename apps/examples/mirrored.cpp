// Trains a network on generated digits. Each of two devices holds a replica.

// [doc:begin mirrored]
#include <iostream>
#include <troupe/troupe.hpp>

int main() {
  troupe::runtime runtime; // this process's actors
  troupe::mirrored_strategy strategy{runtime, {"cpu:0", "cpu:1"}};
  auto [train, test] =
    troupe::data::digits({.examples = 10'000, .seed = 1}).split(0.8);

  auto scope = strategy.scope();
  troupe::model model{troupe::models::mlp(),
                      troupe::adam{.learning_rate = 1e-3f}};
  auto history = model.fit(train.shuffle(8'000).batch(64),
                           {.epochs = 3, .validation = test.batch(256)});
  std::cout << "accuracy " << history.last().validation_accuracy << '\n';
}
// [doc:end]

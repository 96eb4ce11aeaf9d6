// Trains a network on generated digits. Two parameter servers hold its
// parameters, and two workers update them asynchronously.

// [doc:begin servers]
#include <iostream>
#include <troupe/troupe.hpp>

int main() {
  troupe::runtime runtime; // this process's actors
  troupe::parameter_server_strategy strategy{runtime,
                                             {.servers = 2, .workers = 2}};
  troupe::cluster_coordinator coordinator{strategy};
  auto [train, test] =
    troupe::data::digits({.examples = 10'000, .seed = 1}).split(0.8);

  troupe::server_model model{strategy, "digits", troupe::models::mlp(),
                             troupe::adam{.learning_rate = 1e-3f}};
  auto history = model.fit(coordinator, train.shuffle(8'000).batch(64),
                           {.epochs = 3, .validation = test.batch(256)});
  std::cout << "accuracy " << history.last().validation_accuracy << '\n';
}
// [doc:end]

// Runs in several processes, started by: troupe launch -n 2 -- <program>.

#include <iostream>
#include <troupe/troupe.hpp>

int main() try {
  // [doc:begin workers]
  troupe::runtime runtime;
  troupe::multi_worker_mirrored_strategy strategy{
    runtime, troupe::tf_config(), {.devices = {"cpu:0", "cpu:1"}}};
  // [doc:end]
  const auto scope = strategy.scope();
  troupe::model model{troupe::models::mlp(), troupe::adam{}};
  const auto digits = troupe::data::digits({.examples = 1'000});
  model.fit(digits.shuffle().batch(50), {.epochs = 1});
  if (strategy.is_chief())
    std::cout << strategy.num_replicas_in_sync() << " replicas, weights "
              << model.weights_sha256() << '\n';
} catch (const std::exception& e) { // such as a lost worker
  std::cerr << "workers: " << e.what() << '\n';
  return 1;
}

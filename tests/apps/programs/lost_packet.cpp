// Trains in several processes, with a timeout of 3 s instead of 60 s, and
// prints the hash of the weights: troupe launch -n 2 -- lost_packet

#include <iostream>
#include <troupe/troupe.hpp>

int main() try {
  troupe::runtime runtime;
  troupe::multi_worker_options options;
  options.communication.timeout = std::chrono::seconds{3};
  options.communication.callback_timeout = std::chrono::seconds{3};
  const troupe::multi_worker_mirrored_strategy strategy{
    runtime, troupe::tf_config(), options};
  const auto scope = strategy.scope();
  troupe::model model{troupe::models::mlp(), troupe::adam{}};
  const auto digits = troupe::data::digits({.examples = 280});
  model.fit(digits.shuffle().batch(20), {.epochs = 2});
  if (strategy.is_chief())
    std::cout << "weights_sha256 " << model.weights_sha256() << '\n';
} catch (const troupe::job_error& e) {
  std::cerr << "lost_packet: " << e.what() << '\n';
  return 1;
}

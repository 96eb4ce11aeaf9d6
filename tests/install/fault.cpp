#include <iostream>
#include <stdexcept>
#include <string>
#include <troupe/simulation/determinism_check.hpp>
#include <troupe/troupe.hpp>

using namespace troupe;
using namespace troupe::simulation;

/// A user's test of faults outside the source tree, without GoogleTest. Trains
/// a small network and returns the variables of each replica.
tensors small_job(const strategy& job_strategy) {
  static const auto digits = data::digits({.examples = 24, .seed = 1});
  static const models::model_description network{
    "small", {28, 28, 1}, models::stack(models::flatten{}, models::dense{10})};
  const auto scope = job_strategy.scope();
  model model{network, sgd{.learning_rate = 0.1f}};
  model.fit(digits.batch(12), {.epochs = 2, .prefetch = 0});
  return values_on_each(job_strategy, model.variables());
}

void require(bool holds, const std::string& text) {
  if (!holds)
    throw std::runtime_error{text};
}

/// Late and duplicated messages must change no bit of the weights.
void check_late_messages() {
  const auto result = same_bits(
    small_job, {.plan = faults{}.delay(0.2).duplicate(0.2), .seeds = 5});
  require(result.same, result.message);
  require(result.fired.delays > 0 && result.fired.duplicates > 0,
          "no message was late or duplicated");
}

/// The error of a job must name the killed replica.
void check_killed_replica() {
  simulator sim{1};
  random_fault_injector injector{faults{}.kill(replica{2}, at_step{2}), 1};
  try {
    small_job(make_strategy(sim, {.replicas = 3}, &injector));
  } catch (const job_error& e) {
    require(e.code == ec::peer_lost
              && std::string{e.what()}.find("replica 2") != std::string::npos,
            std::string{"wrong error: "} + e.what());
    require(injector.fired.kills == 1, "no replica was killed");
    return;
  }
  throw std::runtime_error{"the job did not fail"};
}

int main() {
  try {
    check_late_messages();
    check_killed_replica();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
  std::cout << "the faults have the expected effects\n";
}

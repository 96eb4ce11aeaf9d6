#include "troupe/training/local_strategies.hpp"

#include "troupe/training/strategy_state.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

void check_threads(int threads) {
  if (threads < 1)
    throw std::invalid_argument(
      "threads: " + std::to_string(threads)
      + " is not a number of threads; give 1 or more");
}

std::shared_ptr<strategy_state> on_one_device(std::string name,
                                              const device& where,
                                              const one_device_options& given) {
  check_threads(given.threads);
  if (given.replicas < 1)
    throw std::invalid_argument("replicas: 0 is not a number of replicas; give "
                                "1 or more");
  auto state = std::make_shared<strategy_state>();
  state->name = std::move(name);
  state->devices = {where};
  state->replicas = given.replicas;
  state->threads = given.threads;
  crew_options options;
  options.replicas = given.replicas;
  options.threads = given.threads;
  state->members = make_inline_crew(options);
  return state;
}

/// One for each thread, so that threads train models of their own at once.
const std::shared_ptr<strategy_state>& default_state() {
  static thread_local const auto one = [] {
    auto state = on_one_device("default", device{}, {});
    state->is_default = true;
    return state;
  }();
  return one;
}

} // namespace

default_strategy::default_strategy() : strategy{default_state()} {}

one_device_strategy::one_device_strategy(const std::string& device,
                                         const one_device_options& options)
  : strategy{on_one_device("one_device", parse_device(device), options)} {}

} // namespace troupe

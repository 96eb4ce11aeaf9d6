// A coordinator for tests: closures_run COUNT SERVERS WORKERS
//
// SERVERS and WORKERS are addresses of nodes with commas; the workers are
// closures_node. Executes the closure "move" COUNT times. Each line of the
// input is the address of a worker to add. Prints a line for each tenth of the
// closures that was scheduled, and at the end "n N x X y Y": the variables.

#include <algorithm>
#include <atomic>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <troupe/troupe.hpp>
#include <vector>

namespace {

using namespace troupe;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in{text};
  for (std::string one; std::getline(in, one, ',');)
    out.push_back(one);
  return out;
}

int run(int count, const std::vector<std::string>& servers,
        const std::vector<std::string>& workers) {
  log_from(log_level::error); // the loss of a worker is a warning
  runtime actors;
  const parameter_server_strategy strategy{actors, {.nodes = servers}};
  const auto x = strategy.make_variable("x", tensor::full({}, 100)),
             y = strategy.make_variable("y", tensor::full({}, 0)),
             n = strategy.make_variable("n", tensor::full({}, 0));
  cluster_coordinator coordinator{
    strategy, {.in_flight = 2, .nodes = workers, .closures = "moves"}};
  std::atomic<bool> failed = false;
  std::thread adds{[&] {
    for (std::string node; std::getline(std::cin, node);)
      try {
        coordinator.add_worker(node);
      } catch (const job_error& e) { // it was killed meanwhile
        std::cerr << e.what() << '\n';
      } catch (const std::exception& e) {
        std::cerr << e.what() << '\n';
        failed = true;
      }
  }};
  for (int i = 0; i < count; ++i) {
    if (i % std::max(1, count / 10) == 0) {
      coordinator.join();
      std::cout << "scheduled " << i << std::endl;
    }
    coordinator.schedule_named("move");
  }
  coordinator.join();
  const auto number = [](const server_variable& v) {
    return v.value().item<float>();
  };
  std::cout << "n " << number(n) << " x " << number(x) << " y " << number(y)
            << std::endl;
  adds.join();
  return failed ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4)
      throw std::invalid_argument("give COUNT SERVERS WORKERS");
    return run(std::stoi(argv[1]), split(argv[2]), split(argv[3]));
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}

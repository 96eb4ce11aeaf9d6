// Measures closures of a cluster coordinator: how many per second, how long one
// takes, and how fast they push and pull a large variable. Servers and workers
// are threads of this process.

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/benchmarks/options.hpp"
#include "troupe/benchmarks/timing.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::benchmarks;

constexpr int windows = 5;

void print(bool json, const std::string& name, const std::string& unit,
           const std::vector<double>& xs) {
  const auto found = summarize(xs);
  if (json)
    std::cout << nlohmann::json{{"case", name},
                                {"unit", unit},
                                {"median", found.median},
                                {"min", found.min},
                                {"max", found.max}}
              << '\n';
  else
    std::printf("%-28s %12.1f %s (%.1f to %.1f)\n", name.c_str(), found.median,
                unit.c_str(), found.min, found.max);
}

/// Microseconds from `schedule` to the end of `join`, of 2,000 closures.
std::vector<double> latencies(cluster_coordinator& coordinator) {
  std::vector<double> out;
  for (int i = -200; i < 2000; ++i) {
    const auto begin = benchmarks::clock::now();
    coordinator.schedule([] { return 0; });
    coordinator.join();
    if (i >= 0)
      out.push_back(1e6 * seconds_since(begin));
  }
  return out;
}

std::vector<double> rates(cluster_coordinator& coordinator, int closures) {
  std::vector<double> out;
  for (int i = -1; i < windows; ++i) {
    const auto begin = benchmarks::clock::now();
    for (int k = 0; k < closures; ++k)
      coordinator.schedule([] { return 0; });
    coordinator.join();
    if (i >= 0)
      out.push_back(closures / seconds_since(begin));
  }
  return out;
}

/// MiB per second of closures that add to a variable, read it, and add all its
/// elements.
std::vector<double> bandwidth(cluster_coordinator& coordinator,
                              const server_variable& variable) {
  std::vector<double> out;
  const auto mib = double(variable.value().bytes()) / (1 << 20);
  for (int i = -2; i < windows; ++i) {
    const auto begin = benchmarks::clock::now();
    const auto sum = coordinator.schedule([&variable] {
      variable.assign_add(1.0);
      const auto pulled = variable.value();
      const auto all = pulled.data<float>();
      float total = 0;
      for (const auto x : all)
        total += x;
      return total;
    });
    coordinator.join();
    if (!(sum.get() > 0))
      throw std::runtime_error("the variable was not changed");
    if (i >= 0)
      out.push_back(2 * mib / seconds_since(begin));
  }
  return out;
}

} // namespace

int main(int argc, char** argv) {
  parameter_server_options on{.servers = 1, .workers = 2};
  coordinator_options how;
  int closures = 100'000;
  std::int64_t mib = 64;
  bool json = false;
  CLI::App app{"Measures closures of a cluster coordinator, whose workers and "
               "servers are threads of this process."};
  app.add_option("--workers", on.workers)
    ->check(CLI::Range(1, 256))
    ->capture_default_str();
  app.add_option("--servers", on.servers)
    ->check(CLI::Range(1, 256))
    ->capture_default_str();
  app
    .add_option("--in-flight", how.in_flight,
                "closures that a worker has at once")
    ->check(CLI::Range(1, 10'000))
    ->capture_default_str();
  app.add_option("--closures", closures, "in each window")
    ->check(CLI::Range(1, 100'000'000))
    ->capture_default_str();
  app.add_option("--mib", mib, "size of the variable")
    ->check(CLI::Range(1, 16'384))
    ->capture_default_str();
  app.add_flag("--json", json, "lines of JSON");
  return run_main(app, argc, argv, [&] {
    runtime actors;
    on.partitioner = parameter_server::fixed_shards_partitioner(on.servers);
    const parameter_server_strategy strategy{actors, on};
    cluster_coordinator coordinator{strategy, how};
    const auto variable =
      strategy.make_variable("variable", tensor_spec{{mib << 18}},
                             [](const parameter_server::row_range& rows) {
                               return tensor::zeros({rows.size()});
                             });
    print(json, "closure schedule+join", "us", latencies(coordinator));
    print(json, "closure rate", "closures/s", rates(coordinator, closures));
    print(json, "push+pull", "MiB/s", bandwidth(coordinator, variable));
  });
}

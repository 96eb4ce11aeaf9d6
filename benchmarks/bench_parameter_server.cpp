// Measures closures of a cluster coordinator: how many per second, how long one
// takes, how fast they push and pull a large variable, and how many rows of a
// table they read and update. Servers and workers are threads of this process.

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/benchmarks/options.hpp"
#include "troupe/benchmarks/timing.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
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

/// Rows per second of closures that read rows of a table of the shape of
/// `wide_deep` and update them by Adagrad, 13,312 of the 2.6 million each.
std::vector<double> row_rates(const parameter_server_strategy& on,
                              cluster_coordinator& coordinator) {
  constexpr std::int64_t all = 2'600'000, rows = 13'312, elements = 16;
  constexpr int closures = 40;
  const auto table =
    on.make_table("table", {.rows = all, .row_elements = elements});
  const server_optimizer optimizer{on, adagrad{}};
  std::mt19937_64 random{1};
  std::vector<tensor> batches;
  for (int i = 0; i < closures; ++i) {
    std::vector<std::int64_t> ids(rows);
    for (auto& one : ids)
      one = std::int64_t(random() % all);
    batches.push_back(tensor::of<std::int64_t>({rows}, ids));
  }
  std::vector<double> out;
  for (int i = -1; i < windows; ++i) {
    const auto begin = benchmarks::clock::now();
    for (const auto& ids : batches)
      coordinator.schedule([&table, &optimizer, ids] {
        const sparse_rows gradient{table.spec().dims, ids, table.lookup(ids)};
        optimizer.apply(std::vector<parameter_gradient>{gradient},
                        std::vector{table});
      });
    coordinator.join();
    if (i >= 0)
      out.push_back(double(closures * rows) / seconds_since(begin));
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
    print(json, "rows read and updated", "rows/s",
          row_rates(strategy, coordinator));
  });
}

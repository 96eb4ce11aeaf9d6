// Measures closures of a cluster coordinator: closures per second, the time of
// one, and the rate at which they push and pull a large variable. Also measures
// how many rows of a table closures read and update, and what memory these rows
// need. Measures the functions that count each closure once, too. Servers and
// workers are threads of this process, or processes of this host. A round trip
// through sockets shows what the machine needs to wake a thread.

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/benchmarks/node_process.hpp"
#include "troupe/benchmarks/options.hpp"
#include "troupe/benchmarks/timing.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/coordinator/executions.hpp"
#include "troupe/strategies/coordinator/staleness_meter.hpp"
#include "troupe/strategies/coordinator/state_machine.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/registered_closures.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
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

/// Closures that a program schedules by name, on threads or on nodes.
using scheduler =
  std::function<remote_value<tensors>(const std::string&, tensors)>;

constexpr auto variable_name = "variable";
constexpr auto table_name = "table";

float sum(std::span<const float> xs) {
  std::array<float, 64> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= xs.size(); i += lanes.size())
    for (std::size_t k = 0; k < lanes.size(); ++k)
      lanes[k] += xs[i + k];
  return std::accumulate(xs.begin() + i, xs.end(),
                         std::accumulate(lanes.begin(), lanes.end(), 0.0f));
}

/// The closures that are measured.
registered_closures make_closures(const parameter_server_strategy& servers) {
  const auto variable = servers.variable(variable_name);
  const auto table = servers.variable(table_name);
  const server_optimizer optimizer{servers, adagrad{}};
  return {{"empty", [](closure_context&, const tensors&) { return tensors{}; }},
          // Adds to a variable, reads it, and adds all its elements.
          {"push_pull",
           [variable](closure_context&, const tensors&) {
             variable.assign_add(1.0);
             const auto pulled = variable.value();
             return tensors{tensor::of<float>({}, {sum(pulled.data<float>())})};
           }},
          // Reads rows of a table and updates them.
          {"rows", [table, optimizer](closure_context&, const tensors& ids) {
             const sparse_rows gradient{table.spec().dims, ids[0],
                                        table.lookup(ids[0])};
             optimizer.apply(std::vector<parameter_gradient>{gradient},
                             std::vector{table});
             return tensors{};
           }}};
}

/// Microseconds from `schedule` to the end of `join`, of 2,000 closures.
std::vector<double> latencies(cluster_coordinator& coordinator,
                              const scheduler& schedule) {
  std::vector<double> out;
  for (int i = -200; i < 2000; ++i) {
    const auto begin = benchmarks::clock::now();
    schedule("empty", {});
    coordinator.join();
    if (i >= 0)
      out.push_back(1e6 * seconds_since(begin));
  }
  return out;
}

/// Microseconds in which a byte passes to another thread and back. Each way, a
/// thread that waits in the system is woken.
std::vector<double> round_trips() {
  int made[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, made) != 0)
    throw std::runtime_error("no socket pair could be made");
  net::descriptor far{made[1]};
  std::jthread echo{[far = std::move(far)] {
    char x = 0;
    while (::read(far.get(), &x, 1) == 1 && ::write(far.get(), &x, 1) == 1) {
    }
  }};
  const net::descriptor near{made[0]}; // closed first, which ends the thread
  std::vector<double> out;
  for (int i = -200; i < 2000; ++i) {
    const auto begin = benchmarks::clock::now();
    char x = 0;
    if (::write(near.get(), &x, 1) != 1 || ::read(near.get(), &x, 1) != 1)
      throw std::runtime_error("a byte did not come back");
    if (i >= 0)
      out.push_back(1e6 * seconds_since(begin));
  }
  return out;
}

std::vector<double> rates(cluster_coordinator& coordinator,
                          const scheduler& schedule, int closures) {
  std::vector<double> out;
  for (int i = -1; i < windows; ++i) {
    const auto begin = benchmarks::clock::now();
    for (int k = 0; k < closures; ++k)
      schedule("empty", {});
    coordinator.join();
    if (i >= 0)
      out.push_back(closures / seconds_since(begin));
  }
  return out;
}

/// MiB per second of closures that add to a variable of `mib` MiB and read it,
/// one after the other.
std::vector<double> bandwidth(cluster_coordinator& coordinator,
                              const scheduler& schedule, std::int64_t mib) {
  std::vector<double> out;
  for (int i = -2; i < 2 * windows; ++i) {
    const auto begin = benchmarks::clock::now();
    const auto sum = schedule("push_pull", {});
    coordinator.join();
    if (!(sum.get()[0].data<float>()[0] > 0))
      throw std::runtime_error("the variable was not changed");
    if (i >= 0)
      out.push_back(2 * double(mib) / seconds_since(begin));
  }
  return out;
}

constexpr std::int64_t table_rows = 2'600'000, row_elements = 16;

constexpr std::int64_t rows_of_closure = 13'312;
constexpr int closures_of_rows = 40;

/// Reads and updates random rows of a table of the shape of `wide_deep`.
void train_rows(cluster_coordinator& coordinator, const scheduler& schedule,
                const std::vector<tensor>& batches) {
  for (const auto& ids : batches)
    schedule("rows", {ids});
  coordinator.join();
}

std::vector<tensor> random_rows(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<tensor> out;
  for (int i = 0; i < closures_of_rows; ++i) {
    std::vector<std::int64_t> ids(rows_of_closure);
    for (auto& one : ids)
      one = std::int64_t(random() % table_rows);
    out.push_back(tensor::of<std::int64_t>({rows_of_closure}, ids));
  }
  return out;
}

/// Rows per second of closures that read rows and update them by Adagrad. All
/// windows have the same rows, so the timed ones make none.
std::vector<double> row_rates(cluster_coordinator& coordinator,
                              const scheduler& schedule) {
  const auto batches = random_rows(1);
  std::vector<double> out;
  for (int i = -1; i < windows; ++i) {
    const auto begin = benchmarks::clock::now();
    train_rows(coordinator, schedule, batches);
    if (i >= 0)
      out.push_back(double(closures_of_rows * rows_of_closure)
                    / seconds_since(begin));
  }
  return out;
}

/// Microseconds of processor time for one closure with effects on all servers.
/// It is what the coordinator, the worker and the servers need to count the
/// closure once. Messages and records are not made.
std::vector<double> bookkeeping(std::uint32_t servers, int closures) {
  std::vector<std::uint32_t> shards(servers);
  std::iota(shards.begin(), shards.end(), 0u);
  std::vector<double> out;
  for (int i = -1; i < windows; ++i) {
    coordinator::state_machine machine{servers};
    coordinator::executions worker;
    std::vector<coordinator::closure_effects> effects(servers);
    std::vector<coordinator::staleness_meter> staleness(servers);
    static_cast<void>(machine.on_worker(1, 64));
    const auto begin = benchmarks::clock::now();
    for (int k = 0; k < closures; ++k) {
      const auto begun = machine.schedule(nullptr);
      const auto& run = std::get<coordinator::send_run>(begun.at(0)).run;
      worker.begin(run);
      for (std::uint32_t s = 0; s < servers; ++s) {
        staleness[s].on_read(run.execution, 0, std::uint64_t(k));
        effects[s].store(run.execution, nullptr, run.done_below);
      }
      const coordinator::ended end{run.execution, shards};
      worker.finish(run.execution, {end});
      for (const auto& one : machine.on(1, end, nullptr))
        if (const auto* x = std::get_if<coordinator::send_decision>(&one)) {
          const auto s = x->shard;
          if (!effects[s].decide(x->decision).applied)
            throw std::logic_error("a closure did not count");
          staleness[s].on_gradient(run.execution, 0, std::uint64_t(k));
          staleness[s].forget_if([&](std::uint64_t ordinal) {
            return effects[s].is_decided(ordinal);
          });
          static_cast<void>(
            machine.on(coordinator::decided{s, x->decision.execution.ordinal}));
        }
    }
    if (!machine.is_done())
      throw std::logic_error("closures are not done");
    if (i >= 0)
      out.push_back(1e6 * seconds_since(begin) / closures);
  }
  return out;
}

/// Rows of a table on the servers, and the memory of their processes.
struct row_memory {
  double rows = 0, resident_bytes = 0;
};

row_memory
measure_rows(const parameter_server_strategy& strategy,
             const std::vector<std::unique_ptr<node_process>>& nodes) {
  row_memory out;
  const auto servers = strategy.status();
  for (std::size_t i = 0; i < servers.size(); ++i) {
    out.rows += double(servers[i].rows);
    out.resident_bytes += nodes.at(i)->resident_bytes();
  }
  return out;
}

/// Growth of the memory of the server processes while rows are made, in percent
/// of the values and slots of these rows.
double percent_of_rows(const row_memory& before, const row_memory& after) {
  constexpr double row_bytes = 2 * sizeof(float) * row_elements; // Adagrad
  return 100 * (after.resident_bytes - before.resident_bytes)
         / ((after.rows - before.rows) * row_bytes);
}

} // namespace

int main(int argc, char** argv) {
  parameter_server_options on{.servers = 1, .workers = 2};
  coordinator_options how;
  int closures = 100'000;
  std::int64_t mib = 64;
  bool json = false, processes = false;
  std::string only;
  CLI::App app{"Measures closures of a cluster coordinator."};
  app.add_option("--workers", on.workers)
    ->check(CLI::Range(1, 256))
    ->capture_default_str();
  app.add_option("--servers", on.servers)
    ->check(CLI::Range(1, 256))
    ->capture_default_str();
  app.add_flag("--processes", processes,
               "each worker and server is a process, not a thread");
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
  app.add_option("--only", only, "the name of one case, such as push+pull");
  app.add_flag("--json", json, "lines of JSON");
  return run_main(app, argc, argv, [&] {
    std::vector<std::unique_ptr<node_process>> nodes;
    const auto start = [&](std::vector<std::string>& addresses, auto&& what) {
      nodes.push_back(std::make_unique<node_process>(what));
      addresses.push_back(nodes.back()->address());
    };
    if (processes) {
      for (std::uint32_t i = 0; i < on.servers; ++i)
        start(on.nodes,
              [](runtime& actors) { register_parameter_server(actors); });
      how.closures = "measured";
      for (std::uint32_t i = 0; i < on.workers; ++i)
        start(how.nodes, [&](runtime& actors) {
          register_closures(
            actors, how.closures,
            [](const parameter_server_strategy& servers, std::uint32_t) {
              return make_closures(servers);
            });
        });
    }
    runtime actors;
    on.partitioner = parameter_server::fixed_shards_partitioner(on.servers);
    const parameter_server_strategy strategy{actors, on};
    strategy.make_variable(variable_name, tensor_spec{{mib << 18}},
                           [](const parameter_server::row_range& rows) {
                             return tensor::zeros({rows.size()});
                           });
    strategy.make_table(table_name,
                        {.rows = table_rows, .row_elements = row_elements});
    const auto local = make_closures(strategy);
    cluster_coordinator coordinator{strategy, how};
    const auto schedule = [&](const std::string& name, tensors inputs) {
      if (processes)
        return coordinator.schedule_named(name, std::move(inputs));
      return coordinator.schedule(
        [](closure_context& self, const registered_closure& fn,
           const tensors& xs) { return fn(self, xs); },
        local.at(name), std::move(inputs));
    };
    const std::vector<std::tuple<std::string, std::string,
                                 std::function<std::vector<double>()>>>
      cases{{"closure schedule+join", "us",
             [&] { return latencies(coordinator, schedule); }},
            {"closure rate", "closures/s",
             [&] { return rates(coordinator, schedule, closures); }},
            {"round trip of a byte", "us", [] { return round_trips(); }},
            {"bookkeeping of a closure", "us",
             [&] { return bookkeeping(on.servers, closures); }},
            {"rows read and updated", "rows/s",
             [&] { return row_rates(coordinator, schedule); }},
            {"memory of rows", "%",
             [&] {
               // The first rows also make what does not grow with the rows.
               train_rows(coordinator, schedule, random_rows(1));
               const auto before = measure_rows(strategy, nodes);
               for (std::uint64_t seed = 2; seed < 6; ++seed)
                 train_rows(coordinator, schedule, random_rows(seed));
               return std::vector{
                 percent_of_rows(before, measure_rows(strategy, nodes))};
             }},
            {"push+pull", "MiB/s",
             [&] { return bandwidth(coordinator, schedule, mib); }}};
    for (const auto& [name, unit, measure] : cases) {
      const bool needs_processes = name == "memory of rows";
      if ((only.empty() || name == only) && (processes || !needs_processes))
        print(json, name, unit, measure());
    }
  });
}

// Measures how much time the library adds to the ops of a step. Runs
// `model.fit` and a baseline loop with the same ops in turn, in one process.

#include "troupe/benchmarks/baseline_loop.hpp"
#include "troupe/benchmarks/options.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe::benchmarks;

struct measured {
  /// Microseconds per step of `model.fit`, of the baseline loop without sums,
  /// and of the baseline loop with sums. One element per round. With one
  /// replica, `summing` equals `baseline`.
  std::vector<double> fit, baseline, summing;
};

measured measure(const training_options& o, int rounds, std::uint64_t steps) {
  const auto replicas = o.config.replicas;
  const auto& workload = find_workload(o.model);
  baseline_loop alone{workload, o.batch, replicas, o.config.threads};
  baseline_loop summing{workload, o.batch, replicas, o.config.threads,
                        gradient_sync::sums};
  fit_runner fit{o.model, o.batch, o.config};
  const auto time = [&](baseline_loop& loop) {
    loop.run(20);
    const auto start = clock::now();
    loop.run(steps);
    return 1e6 * seconds_since(start) / double(steps);
  };
  measured out;
  for (int i = 0; i < rounds; ++i) {
    out.baseline.push_back(time(alone));
    out.fit.push_back(1e6 * fit.time(1, steps, 20).at(0));
    out.summing.push_back(replicas > 1 ? time(summing) : out.baseline.back());
  }
  return out;
}

/// Returns a summary of `measured_times[i] - reference[i]` over all rounds i.
summary differences(const std::vector<double>& reference,
                    const std::vector<double>& measured_times) {
  std::vector<double> out;
  for (std::size_t i = 0; i < measured_times.size(); ++i)
    out.push_back(measured_times[i] - reference[i]);
  return summarize(out);
}

void print(const training_options& o, const measured& times, bool json) {
  const auto name = o.model + "/b" + std::to_string(o.batch) + "/t"
                    + std::to_string(o.config.threads) + "/" + o.config.strategy
                    + "/r" + std::to_string(o.config.replicas);
  const auto over_baseline = differences(times.baseline, times.fit);
  const auto over_sums = differences(times.summing, times.fit);
  if (json) {
    std::cout << nlohmann::json{{"case", name},
                                {"fit_us", summarize(times.fit).median},
                                {"bare_us", summarize(times.baseline).median},
                                {"summing_us", summarize(times.summing).median},
                                {"added_us", over_baseline.median},
                                {"added_min", over_baseline.min},
                                {"added_max", over_baseline.max},
                                {"added_to_summing_us", over_sums.median},
                                {"added_to_summing_min", over_sums.min},
                                {"added_to_summing_max", over_sums.max}}
              << '\n';
    return;
  }
  std::printf(
    "%s: %.1f us a step, baseline %.1f us: %.1f us added (%.1f to %.1f)",
    name.c_str(), summarize(times.fit).median, summarize(times.baseline).median,
    over_baseline.median, over_baseline.min, over_baseline.max);
  if (o.config.replicas > 1)
    std::printf("; baseline with sums %.1f us: %.1f us added (%.1f to %.1f)",
                summarize(times.summing).median, over_sums.median,
                over_sums.min, over_sums.max);
  std::printf("\n");
}

} // namespace

int main(int argc, char** argv) {
  training_options o;
  int rounds = 11;
  std::uint64_t steps = 300;
  bool json = false;
  CLI::App app{
    "Measures what model.fit adds to the ops of a step, in turn with "
    "a baseline loop that has one thread per replica. With two or more "
    "replicas, also with a loop that sums the gradients."};
  o.add_to(app);
  app.add_option("--rounds", rounds)
    ->check(CLI::Range(1, 1000))
    ->capture_default_str();
  app.add_option("--steps", steps, "of each loop in a round")
    ->check(CLI::Range(10, 1000000))
    ->capture_default_str();
  app.add_flag("--json", json, "one line of JSON");
  return run_main(app, argc, argv,
                  [&] { print(o, measure(o, rounds, steps), json); });
}

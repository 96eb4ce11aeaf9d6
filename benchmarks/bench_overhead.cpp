// Measures what the library adds to the time of a step: runs `model.fit` and
// the baseline loop over the same ops in turn, in one process.

#include "troupe/benchmarks/baseline_loop.hpp"
#include "troupe/benchmarks/options.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe::benchmarks;

struct measured {
  std::vector<double> fit, bare, summing; ///< Microseconds per step, by round.
};

measured measure(const training_options& o, int rounds, std::uint64_t steps) {
  const auto replicas = o.where.replicas;
  const auto& what = find_workload(o.model);
  bare_loop alone{what, o.batch, replicas, o.where.threads};
  bare_loop summing{what, o.batch, replicas, o.where.threads, sharing::sums};
  fitted fit{o.model, o.batch, o.where};
  const auto time = [&](bare_loop& loop) {
    loop.run(20);
    const auto start = clock::now();
    loop.run(steps);
    return 1e6 * seconds_since(start) / double(steps);
  };
  measured out;
  for (int i = 0; i < rounds; ++i) {
    out.bare.push_back(time(alone));
    out.fit.push_back(1e6 * fit.time(1, steps, 20).at(0));
    out.summing.push_back(replicas > 1 ? time(summing) : out.bare.back());
  }
  return out;
}

/// @returns a summary of the differences `by - to` within each round.
summary added(const std::vector<double>& to, const std::vector<double>& by) {
  std::vector<double> out;
  for (std::size_t i = 0; i < by.size(); ++i)
    out.push_back(by[i] - to[i]);
  return summarize(out);
}

void print(const training_options& o, const measured& x, bool json) {
  const auto name = o.model + "/b" + std::to_string(o.batch) + "/t"
                    + std::to_string(o.where.threads) + "/" + o.where.strategy
                    + "/r" + std::to_string(o.where.replicas);
  const auto over_bare = added(x.bare, x.fit);
  const auto over_sums = added(x.summing, x.fit);
  if (json) {
    std::cout << nlohmann::json{{"case", name},
                                {"fit_us", summarize(x.fit).median},
                                {"bare_us", summarize(x.bare).median},
                                {"summing_us", summarize(x.summing).median},
                                {"added_us", over_bare.median},
                                {"added_min", over_bare.min},
                                {"added_max", over_bare.max},
                                {"added_to_summing_us", over_sums.median},
                                {"added_to_summing_min", over_sums.min},
                                {"added_to_summing_max", over_sums.max}}
              << '\n';
    return;
  }
  std::printf(
    "%s: %.1f us a step, baseline %.1f us: %.1f us added (%.1f to %.1f)",
    name.c_str(), summarize(x.fit).median, summarize(x.bare).median,
    over_bare.median, over_bare.min, over_bare.max);
  if (o.where.replicas > 1)
    std::printf("; baseline with sums %.1f us: %.1f us added (%.1f to %.1f)",
                summarize(x.summing).median, over_sums.median, over_sums.min,
                over_sums.max);
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

// Measures how much faster a model trains in bf16 than in float32.

#include "troupe/benchmarks/options.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;
using namespace troupe::benchmarks;

/// Seconds per step; one element for each round.
struct measured {
  std::vector<double> float32, bf16, ratios;
};

measured measure(const training_options& o, int rounds, std::uint64_t steps) {
  auto config = o.config;
  fit_runner wide{o.model, o.batch, config};
  config.precision = models::precision::bf16;
  fit_runner narrow{o.model, o.batch, config};
  measured out;
  for (int i = 0; i < rounds; ++i) {
    out.float32.push_back(wide.time(1, steps, steps / 10 + 1).front());
    out.bf16.push_back(narrow.time(1, steps, steps / 10 + 1).front());
    out.ratios.push_back(out.float32.back() / out.bf16.back());
  }
  return out;
}

void print(const training_options& o, const measured& times, bool json) {
  const auto name = o.model + "/b" + std::to_string(o.batch) + "/t"
                    + std::to_string(o.config.threads) + "/" + o.config.strategy
                    + "/r" + std::to_string(o.config.replicas);
  const auto examples = double(o.batch * o.config.replicas);
  const auto wide = examples / summarize(times.float32).median;
  const auto narrow = examples / summarize(times.bf16).median;
  const auto ratio = summarize(times.ratios);
  if (json)
    std::cout << nlohmann::json{{"case", name},
                                {"float32_examples_per_s", wide},
                                {"bf16_examples_per_s", narrow},
                                {"ratio", ratio.median},
                                {"ratio_min", ratio.min},
                                {"ratio_max", ratio.max}}
              << '\n';
  else
    std::printf("%s: float32 %.0f examples/s, bf16 %.0f: %.2f times as fast "
                "(%.2f to %.2f)\n",
                name.c_str(), wide, narrow, ratio.median, ratio.min, ratio.max);
}

} // namespace

int main(int argc, char** argv) {
  training_options o;
  int rounds = 11;
  std::uint64_t steps = 50;
  bool json = false;
  CLI::App app{"Measures how much faster model.fit is in bf16 than in float32, "
               "in turn."};
  o.add_to(app);
  app.add_option("--rounds", rounds)
    ->check(CLI::Range(1, 1000))
    ->capture_default_str();
  app.add_option("--steps", steps, "of each precision in a round")
    ->check(CLI::Range(1, 1000000))
    ->capture_default_str();
  app.add_flag("--json", json, "one line of JSON");
  return run_main(app, argc, argv,
                  [&] { print(o, measure(o, rounds, steps), json); });
}

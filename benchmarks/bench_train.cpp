// Measures training in examples per second. The output has the keys of the
// peers' programs (peers/), which train the same models on the same kind of
// noise with the same update rules.

#include "troupe/benchmarks/baseline_loop.hpp"
#include "troupe/benchmarks/local_job.hpp"
#include "troupe/benchmarks/options.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;
using namespace troupe::benchmarks;

struct measured {
  std::string how;
  std::vector<double> seconds; ///< Seconds per step of each window.
  double last_loss = 0;
};

measured run_bare(const training_options& o, const windows& how) {
  bare_loop loop{find_workload(o.model), o.batch, o.where.replicas,
                 o.where.threads};
  return {"bare", time_steps(how, [&](auto steps) { loop.run(steps); }),
          loop.last_loss()};
}

measured run_fit(const training_options& o, const windows& how) {
  fitted it{o.model, o.batch, o.where};
  return {o.where.strategy, it.time(how), it.last_loss()};
}

measured run_workers(training_options& o, const windows& how) {
  o.where.replicas = o.where.workers;
  measured found{"workers-" + o.where.transport, {}, 0};
  run_local_job(
    {o.where.workers, o.where.transport},
    [&](const multi_worker_mirrored_strategy& all, std::uint32_t rank) {
      fitted it{o.model, o.batch, all};
      if (rank > 0)
        return it.follow();
      found.seconds = it.time(how);
      found.last_loss = it.last_loss();
    });
  return found;
}

void print(const training_options& o, const measured& x, bool json) {
  const auto step = summarize(x.seconds);
  const auto examples = double(o.batch * o.where.replicas);
  const auto name = o.model + "/b" + std::to_string(o.batch) + "/t"
                    + std::to_string(o.where.threads) + "/" + x.how + "/r"
                    + std::to_string(o.where.replicas);
  if (json)
    std::cout << nlohmann::json{{"case", name},
                                {"examples_per_s", examples / step.median},
                                {"min", examples / step.max},
                                {"max", examples / step.min},
                                {"step_us", 1e6 * step.median},
                                {"windows", x.seconds.size()},
                                {"loss", x.last_loss}}
              << '\n';
  else
    std::printf("%s: %.0f examples/s (%.0f to %.0f), %.1f us a step, loss %g\n",
                name.c_str(), examples / step.median, examples / step.max,
                examples / step.min, 1e6 * step.median, x.last_loss);
}

} // namespace

int main(int argc, char** argv) {
  training_options o;
  windows how;
  bool bare = false, json = false;
  CLI::App app{
    "Measures how fast a model trains on noise of a fixed seed. Prints "
    "the median of several windows after a warm-up."};
  o.add_to(app);
  o.add_workers_to(app);
  app.add_option("--windows", how.count, "number of windows to time")
    ->check(CLI::Range(1, 1000))
    ->capture_default_str();
  app.add_option("--window-s", how.seconds, "approximate length of a window")
    ->check(CLI::Range(0.01, 600.0))
    ->capture_default_str();
  app.add_flag(
    "--bare", bare,
    "the baseline loop: the same ops without the library's training, "
    "one thread per replica, nothing shared");
  app.add_flag("--json", json, "one line of JSON");
  return run_main(app, argc, argv, [&] {
    print(o,
          bare                  ? run_bare(o, how)
          : o.where.workers > 0 ? run_workers(o, how)
                                : run_fit(o, how),
          json);
  });
}

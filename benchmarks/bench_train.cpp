// Measures the speed of training in examples per second. The programs in peers/
// measure other frameworks. They train the same models with the same update
// rules on the same kind of random inputs, and print the same JSON keys.

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
  std::string mode;
  /// Seconds per step; one element per timing window.
  std::vector<double> seconds;
  double last_loss = 0;
};

measured run_baseline(const training_options& o,
                      const timing_windows& windows) {
  baseline_loop loop{find_workload(o.model), o.batch,
                     o.config.replicas,      o.config.threads,
                     gradient_sync::none,    parse_device(o.config.device)};
  return {"bare", time_steps(windows, [&](auto steps) { loop.run(steps); }),
          loop.last_loss()};
}

measured run_fit(const training_options& o, const timing_windows& windows) {
  fit_runner runner{o.model, o.batch, o.config};
  return {o.config.strategy, runner.time(windows), runner.last_loss()};
}

measured run_workers(training_options& o, const timing_windows& windows) {
  o.config.replicas = o.config.workers;
  measured result{"workers-" + o.config.transport, {}, 0};
  run_local_job(
    {.processes = o.config.workers,
     .transport = o.config.transport,
     .heartbeat_interval = o.config.heartbeat_interval},
    [&](const multi_worker_mirrored_strategy& workers, std::uint32_t rank) {
      fit_runner runner{o.model, o.batch, workers};
      runner.set_audit_steps(o.config.audit_steps);
      if (rank > 0)
        return runner.run_follower();
      result.seconds = runner.time(windows);
      result.last_loss = runner.last_loss();
    });
  return result;
}

void print(const training_options& o, const measured& result, bool json) {
  const auto step = summarize(result.seconds);
  const auto examples = double(o.batch * o.config.replicas);
  auto name = o.model + "/b" + std::to_string(o.batch) + "/t"
              + std::to_string(o.config.threads) + "/" + result.mode + "/r"
              + std::to_string(o.config.replicas);
  if (o.config.device != "cpu:0")
    name += "/" + o.config.device + "/"
            + std::string{models::to_string(o.config.precision)}
            + (o.config.host_batches ? "/host-batches" : "")
            + (o.config.graph ? "/graph" : "");
  if (json)
    std::cout << nlohmann::json{{"case", name},
                                {"examples_per_s", examples / step.median},
                                {"min", examples / step.max},
                                {"max", examples / step.min},
                                {"step_us", 1e6 * step.median},
                                {"windows", result.seconds.size()},
                                {"loss", result.last_loss}}
              << '\n';
  else
    std::printf("%s: %.0f examples/s (%.0f to %.0f), %.1f us a step, loss %g\n",
                name.c_str(), examples / step.median, examples / step.max,
                examples / step.min, 1e6 * step.median, result.last_loss);
}

} // namespace

int main(int argc, char** argv) {
  training_options o;
  timing_windows windows;
  bool bare = false, json = false;
  CLI::App app{
    "Measures how fast a model trains on noise of a fixed seed. Prints "
    "the median of several windows after a warm-up."};
  o.add_to(app);
  o.add_workers_to(app);
  app.add_option("--windows", windows.count, "number of windows to time")
    ->check(CLI::Range(1, 1000))
    ->capture_default_str();
  app
    .add_option("--window-s", windows.seconds, "approximate length of a window")
    ->check(CLI::Range(0.01, 600.0))
    ->capture_default_str();
  app.add_flag(
    "--bare", bare,
    "the baseline loop: the same ops without the library's training, "
    "one thread per replica, nothing shared");
  app.add_flag("--json", json, "one line of JSON");
  return run_main(app, argc, argv, [&] {
    print(o,
          bare                   ? run_baseline(o, windows)
          : o.config.workers > 0 ? run_workers(o, windows)
                                 : run_fit(o, windows),
          json);
  });
}

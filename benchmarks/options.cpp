#include "troupe/benchmarks/options.hpp"

#include <exception>
#include <iostream>
#include <stdexcept>

namespace troupe::benchmarks {

void training_options::add_to(CLI::App& app) {
  app.add_option("--model", model, "mlp, lenet, wide or wide_deep")
    ->capture_default_str();
  app.add_option("--batch", batch, "examples per replica and step")
    ->check(CLI::Range(1, 1 << 20))
    ->capture_default_str();
  app.add_option("--threads", config.threads, "threads of each replica's ops")
    ->check(CLI::Range(1, 1024))
    ->capture_default_str();
  app
    .add_option("--strategy", config.strategy,
                "default, one_device or mirrored (cpu:0, cpu:1, ...)")
    ->capture_default_str();
  app
    .add_option("--device", config.device,
                "device of one_device and of --bare: cpu:0 or gpu:0")
    ->capture_default_str();
  app.add_flag("--host-batches", config.host_batches,
               "with fit on a GPU, the batches are on the CPU before a step");
  app.add_flag("--graph", config.graph,
               "with fit on a GPU, the steps are captured as graphs");
  app
    .add_option_function<std::string>(
      "--precision",
      [this](const std::string& name) {
        const auto found = models::find_precision(name);
        if (!found)
          throw CLI::ValidationError("--precision", "is float32 or bf16");
        config.precision = *found;
      },
      "float32 or bf16, with fit")
    ->default_str("float32");
  app.add_option("--replicas", config.replicas, "number of replicas")
    ->check(CLI::Range(1, 1024))
    ->capture_default_str();
}

void training_options::add_workers_to(CLI::App& app) {
  app
    .add_option("--workers", config.workers,
                "processes of one replica each, instead of --strategy")
    ->check(CLI::Range(1, 64));
  app
    .add_option("--transport", config.transport,
                "transport between workers: auto, shm, tcp or tls")
    ->check(CLI::IsMember({"auto", "shm", "tcp", "tls"}))
    ->capture_default_str();
  app
    .add_option("--audit-steps", config.audit_steps,
                "steps of workers between two audits; 0: no audits")
    ->capture_default_str();
  app
    .add_option_function<int>(
      "--heartbeat-ms",
      [this](int ms) {
        config.heartbeat_interval = std::chrono::milliseconds{ms};
      },
      "time between two heartbeats of a worker")
    ->check(CLI::Range(1, 60'000));
}

int run_main(CLI::App& app, int argc, char** argv,
             const std::function<void()>& fn) try {
  app.parse(argc, argv);
  fn();
  return 0;
} catch (const CLI::ParseError& e) {
  return app.exit(e) == 0 ? 0 : 2;
} catch (const std::invalid_argument& e) {
  std::cerr << e.what() << '\n';
  return 2;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}

} // namespace troupe::benchmarks

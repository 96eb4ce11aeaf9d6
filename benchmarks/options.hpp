#pragma once

#include "troupe/benchmarks/fit_runner.hpp"
#include "troupe/benchmarks/timing.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::benchmarks {

/// Options of all programs that train.
struct training_options {
  std::string model = "mlp";
  std::uint64_t batch = 64; ///< Examples per replica and step.
  run_config config;

  void add_to(CLI::App& app);
  void add_workers_to(CLI::App& app);
};

/// Parses the command line and runs `fn`. Each benchmark's `main` calls this.
/// @returns the exit code; 2 after a usage error.
int run_main(CLI::App& app, int argc, char** argv,
             const std::function<void()>& fn);

} // namespace troupe::benchmarks

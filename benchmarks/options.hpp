#pragma once

#include "troupe/benchmarks/fit_runner.hpp"
#include "troupe/benchmarks/timing.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::benchmarks {

/// What all programs that train can be told.
struct training_options {
  std::string model = "mlp";
  std::uint64_t batch = 64; ///< Of each replica.
  placement where;

  void add_to(CLI::App& app);
  void add_workers_to(CLI::App& app);
};

/// `main` of a benchmark: reads the command line and runs `fn`.
/// @returns the exit code: 2 for a command line that is wrong.
int run_main(CLI::App& app, int argc, char** argv,
             const std::function<void()>& fn);

} // namespace troupe::benchmarks

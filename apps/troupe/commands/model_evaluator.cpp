#include "troupe/apps/troupe/commands/model_evaluator.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/file_version.hpp"
#include "troupe/apps/troupe/base/metric_text.hpp"
#include "troupe/apps/troupe/base/run_data.hpp"
#include "troupe/apps/troupe/base/signal_receiver.hpp"
#include "troupe/training/job/job_metrics.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <poll.h>
#include <stdexcept>
#include <string>

using namespace troupe;

namespace {

/// Time between two looks at the file.
constexpr std::chrono::milliseconds look_interval{100};

/// Waits until it is time for the next look.
/// @returns false if a signal has arrived.
bool wait_for_look(const signal_receiver& signals) {
  pollfd news{signals.descriptor(), POLLIN, 0};
  ::poll(&news, 1, static_cast<int>(look_interval.count()));
  return signals.take() == 0;
}

/// Evaluates a version, and prints the line of it.
void evaluate(model& saved, const run_data& data,
              const train_arguments& arguments, const train_config& config) {
  const auto found = saved.evaluate(data.test, {.metrics = metrics_of(config)});
  if (!arguments.quiet) {
    std::printf("step %llu  %s\n",
                static_cast<unsigned long long>(saved.steps()),
                text_of_test(found).c_str());
    std::fflush(stdout);
  }
}

} // namespace

int evaluate_versions(const train_arguments& arguments,
                      const train_config& config) {
  if (!arguments.names_file())
    throw std::invalid_argument(
      "TF_CONFIG: task.type is evaluator, and there is no file that it could "
      "evaluate; give --save FILE, as for the chief");
  const signal_receiver signals{SIGINT, SIGTERM, SIGHUP};
  const auto file = arguments.save_path();
  auto of_data = config;
  const auto data = open_batches(of_data);
  const one_device_strategy strategy{"cpu:0", {.threads = config.threads}};
  const auto scope = strategy.scope();
  const auto* const earlier = std::getenv(earlier_version_variable);
  const auto first = earlier ? std::string{} : version_of(file);
  std::string last = earlier ? earlier : "";
  bool is_complete = false;
  while (!is_complete && wait_for_look(signals)) {
    const auto version = version_of(file);
    if (version.empty() || version == last)
      continue;
    try {
      auto saved = model::load(file);
      if (version_of(file) != version)
        continue; // a later version has replaced it meanwhile
      evaluate(saved, data, arguments, config);
      is_complete = !saved.interrupted() && version != first;
    } catch (const std::exception& e) { // a later version may be intact
      log(log_level::warning, "this version of the model is not evaluated: "
                                + std::string{e.what()});
    }
    last = version;
  }
  return ok;
}

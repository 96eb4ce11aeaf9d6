#include "model_evaluator.hpp"

#include "command.hpp"
#include "metric_text.hpp"
#include "run_data.hpp"
#include "signal_receiver.hpp"
#include "troupe/actors/core/log.hpp"
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
#include <sys/stat.h>

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

/// Evaluates the file. @returns true if its run is complete.
bool evaluate(const std::string& file, const run_data& data,
              const train_arguments& arguments, const train_config& config) {
  auto saved = model::load(file);
  const auto found = saved.evaluate(data.test, {.metrics = metrics_of(config)});
  if (!arguments.quiet) {
    std::printf("step %llu  %s\n",
                static_cast<unsigned long long>(saved.steps()),
                text_of_test(found).c_str());
    std::fflush(stdout);
  }
  return !saved.interrupted();
}

} // namespace

std::string version_of(const std::filesystem::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0 || !S_ISREG(found.st_mode))
    return {};
  return std::to_string(found.st_dev) + "/" + std::to_string(found.st_ino) + "/"
         + std::to_string(found.st_mtim.tv_sec) + "."
         + std::to_string(found.st_mtim.tv_nsec) + "/"
         + std::to_string(found.st_size);
}

int evaluate_versions(const train_arguments& arguments,
                      const train_config& config) {
  if (arguments.save.empty() && arguments.resume.empty())
    throw std::invalid_argument(
      "TF_CONFIG: task.type is evaluator, and there is no file that it could "
      "evaluate; give --save FILE, as for the chief");
  const signal_receiver signals{SIGINT, SIGTERM};
  const auto file = arguments.save_path();
  const auto data = open_batches(config);
  const one_device_strategy strategy{"cpu:0", {.threads = config.threads}};
  const auto scope = strategy.scope();
  const auto* const earlier = std::getenv(earlier_version_variable);
  std::string last = earlier ? earlier : "";
  bool is_complete = false;
  while (!is_complete && wait_for_look(signals)) {
    const auto version = version_of(file);
    if (version.empty() || version == last)
      continue;
    last = version;
    try {
      is_complete = evaluate(file, data, arguments, config);
    } catch (const std::exception& e) { // a later version may be intact
      log(log_level::warning, "this version of the model is not evaluated: "
                                + std::string{e.what()});
    }
  }
  return ok;
}

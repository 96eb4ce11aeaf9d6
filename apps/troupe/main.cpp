// The troupe tool: one command per file.

#include "command.hpp"
#include "troupe/training/log.hpp"
#include "troupe/training/version.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <iostream>
#include <map>
#include <stdexcept>

namespace {

constexpr auto about =
  "Trains neural networks over several devices, each a replica of the model\n"
  "that is an actor with a thread of its own.\n";

constexpr auto examples =
  "Examples:\n"
  "  troupe train                              a small network on drawn "
  "digits\n"
  "  troupe train --model lenet --epochs 3 --devices cpu:0,cpu:1 \\\n"
  "    --save digits.troupe\n"
  "  troupe predict --model digits.troupe --data digits --count 10\n"
  "\n"
  "Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted and saved.\n";

int run(int argc, char** argv) {
  CLI::App tool{about, "troupe"};
  tool.set_version_flag("--version", troupe::version);
  tool.require_subcommand(0, 1);
  tool.fallthrough(); // --log is taken after a command too
  tool.footer(examples);
  const std::map<std::string, troupe::log_level> levels{
    {"debug", troupe::log_level::debug},
    {"info", troupe::log_level::info},
    {"warning", troupe::log_level::warning},
    {"error", troupe::log_level::error},
    {"off", troupe::log_level::off}};
  std::string level = "warning";
  tool.add_option("--log", level, "Least level of log lines on standard error")
    ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
    ->capture_default_str();
  action what;
  add_train(tool, what);
  add_predict(tool, what);
  add_models(tool, what);
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return tool.exit(e) == 0 ? ok : misused;
  }
  if (!what)
    throw std::invalid_argument("no command: give train, predict or models; "
                                "troupe --help says more");
  troupe::log_from(levels.at(level));
  return what();
}

int say(const std::exception& e, int code) {
  std::cerr << "troupe: " << e.what() << '\n';
  return code;
}

} // namespace

int main(int argc, char** argv) {
  // A file-size limit is an error of the write that hits it, with a sentence.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::invalid_argument& e) {
    return say(e, misused);
  } catch (const std::bad_alloc&) {
    return say(std::runtime_error{"there is not enough memory for this; a "
                                  "smaller batch or model takes less"},
               failed);
  } catch (const std::exception& e) {
    return say(e, failed);
  }
}

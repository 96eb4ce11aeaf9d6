// The troupe tool. Each command has a file of its own.

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/version.hpp"
#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/models/detail/names.hpp"
#include "troupe/tensors/base/device_error.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <malloc.h>
#include <map>
#include <new>
#include <stdexcept>
#include <string_view>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace {

constexpr auto about =
  "Trains neural networks on several devices and in several processes. Each\n"
  "device holds one replica of the model.\n";

constexpr auto tool_examples =
  "Examples:\n"
  "  troupe train                              a small network on "
  "generated digits\n"
  "  troupe train --model lenet --epochs 3 --devices cpu:0,cpu:1 \\\n"
  "    --save digits.troupe\n"
  "  troupe evaluate --model digits.troupe --data digits\n"
  "  troupe predict --model digits.troupe --data digits --count 10\n"
  "  troupe launch -n 2 -- ./program           a job of two processes\n"
  "  troupe cert --out certificates            for TLS between them\n"
  "  troupe node                               a process for remote roles\n"
  "  troupe status 127.0.0.1:4100              state of a job or a node\n"
  "  troupe explain troupe-flight-*.bin        what happened in a failed job\n"
  "\n"
  "Exit codes: 0 success; 1 failure, such as a file that is missing, damaged\n"
  "or cannot be written; 2 usage error, such as an invalid option value or an\n"
  "unknown column of a table; 3 interrupted, nothing saved; 4 a GPU of the\n"
  "process has failed; 130 interrupted and saved (only train). launch ends "
  "with\n"
  "the code of the process that failed first.\n";

using troupe::models::detail::guess;

/// Returns the names of all commands.
std::vector<std::string> command_names(const CLI::App& tool) {
  std::vector<std::string> out;
  for (const auto* command :
       tool.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(command->get_name());
  return out;
}

/// Returns the options that the command line may contain, as in "--log".
std::vector<std::string> option_names(const CLI::App& tool) {
  std::vector<std::string> out;
  const auto add = [&out](const CLI::App& app) {
    for (const auto* option : app.get_options())
      if (!option->get_group().empty()) // else the help does not show it
        for (const auto& name : option->get_lnames())
          out.push_back("--" + name);
  };
  add(tool);
  for (const auto* command : tool.get_subcommands())
    add(*command);
  return out;
}

bool is_option(const std::string& word) {
  return word.starts_with('-');
}

/// Names the first unknown option, the unknown command, or the first argument
/// that no option takes.
std::string unexpected_text(const CLI::App& tool) {
  const auto unexpected = tool.remaining(/*recurse*/ true);
  const auto option = std::ranges::find_if(unexpected, is_option);
  const auto& word = unexpected.front();
  if (tool.get_subcommands().empty() && !is_option(word)) {
    const auto meant = guess(word, command_names(tool));
    return word + ": there is no such command" + (meant.empty() ? "" : ";")
           + meant;
  }
  if (option != unexpected.end()) {
    const auto name = option->substr(0, option->find('='));
    const auto meant = guess(name, option_names(tool));
    return name + ": there is no such option" + (meant.empty() ? "" : ";")
           + meant;
  }
  return word + ": this argument was not expected";
}

/// Returns the parser's error in one line, with the help command to run.
std::string parse_error_text(const CLI::App& tool, const CLI::ParseError& e) {
  // An option that is required may be misspelt.
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&e);
  const bool names_unexpected =
    dynamic_cast<const CLI::ExtrasError*>(&e)
    || (is_missing && std::ranges::any_of(tool.remaining(true), is_option));
  std::string text = names_unexpected ? unexpected_text(tool) : e.what();
  std::ranges::replace(text, '\n', ' ');
  const auto commands = tool.get_subcommands();
  return text + (text.ends_with('?') ? " see troupe " : "; see troupe ")
         + (commands.empty() ? "" : commands.front()->get_name() + " ")
         + "--help";
}

/// Removes "--" and the words after it from `argv`, and returns these words.
/// CLI11 must not parse them, because it would split a word such as "[a,b]".
std::vector<std::string> cut_program(int& argc, char** argv) {
  auto** const end = argv + argc;
  auto** const mark = std::find(argv, end, std::string_view{"--"});
  if (mark == end)
    return {};
  argc = static_cast<int>(mark - argv);
  return {mark + 1, end};
}

/// Least address space of a process that computes. Its threads reserve most of
/// it.
constexpr rlim_t min_address_space = rlim_t{512} << 20;

/// Prepares for a limit of the address space (`ulimit -v`).
/// @errors throws std::runtime_error if it is too low for any run: libraries
///         that lack memory in their start end the process without a reason.
void check_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return;
  // Each further arena of malloc would reserve 64 MiB.
  ::mallopt(M_ARENA_MAX, 1);
  if (limit.rlim_cur < min_address_space)
    throw std::runtime_error(
      "not enough memory: the address space of this process is limited to "
      + std::to_string(limit.rlim_cur >> 10) + " KiB, and the least is "
      + std::to_string(min_address_space >> 10)
      + " KiB; raise the limit (ulimit -v)");
}

int run(int argc, char** argv) {
  const auto program = cut_program(argc, argv);
  CLI::App tool{about, "troupe"};
  tool.set_version_flag("--version", troupe::version);
  tool.require_subcommand(0, 1);
  tool.fallthrough(); // --log is accepted after a command too
  tool.footer(tool_examples);
  const std::map<std::string, troupe::log_level> levels{
    {"debug", troupe::log_level::debug},
    {"info", troupe::log_level::info},
    {"warning", troupe::log_level::warning},
    {"error", troupe::log_level::error},
    {"off", troupe::log_level::off}};
  std::string level = "warning";
  tool
    .add_option("--log", level, "Minimum level of log lines on standard error")
    ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
    ->capture_default_str();
  action selected;
  add_train(tool, selected);
  add_evaluate(tool, selected);
  add_predict(tool, selected);
  add_models(tool, selected);
  add_devices(tool, selected);
  add_launch(tool, selected, program);
  add_cert(tool, selected);
  add_node(tool, selected);
  add_status(tool, selected);
  add_explain(tool, selected);
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0)
      return tool.exit(e); // --help or --version
    throw std::invalid_argument(parse_error_text(tool, e));
  }
  if (!selected)
    throw std::invalid_argument("no command: give train, evaluate, predict, "
                                "models, devices, launch, cert, node, status "
                                "or explain; see troupe --help");
  if (!program.empty() && !tool.got_subcommand("launch"))
    throw std::invalid_argument("-- " + program.front()
                                + ": only troupe launch starts programs");
  troupe::log_from(levels.at(level));
  for (const auto* command : {"train", "evaluate", "predict", "node"})
    if (tool.got_subcommand(command))
      check_address_space();
  return selected();
}

/// Returns the sentence of an error of the system.
std::string text_of(const std::system_error& e) {
  if (e.code() != std::errc::resource_unavailable_try_again)
    return e.what();
  return "cannot start a thread: " + std::string{e.what()}
         + "; raise the limits of memory and of processes (ulimit -v, "
           "ulimit -u), or give fewer --threads, --replicas or --workers";
}

constexpr std::string_view no_memory =
  "not enough memory; raise the limit of memory if there is one (ulimit -v), "
  "or use a smaller batch or a smaller model";

/// What the standard library does about an error that is not handled.
std::terminate_handler standard_handler = std::abort;

/// Ends the process with a sentence if the error that is not handled is a lack
/// of memory, and otherwise as the standard library does.
[[noreturn]] void on_unhandled_error() {
  static const auto write_line = [](std::string_view text) {
    return ::write(STDERR_FILENO, text.data(), text.size()) >= 0;
  };
  try {
    if (const auto error = std::current_exception())
      std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    write_line("troupe: ");
    write_line(no_memory);
    write_line("\n");
    std::_Exit(failed);
  } catch (...) {
  }
  standard_handler();
  std::abort();
}

/// Flushes standard output and throws if it could not be written, as when a
/// disk is full.
void check_output() {
  const bool flushed = std::cout.flush() && std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0)
    throw std::runtime_error("cannot write to standard output; is the disk "
                             "full?");
}

} // namespace

int main(int argc, char** argv) {
  standard_handler = std::set_terminate(on_unhandled_error);
  // With SIGXFSZ ignored, a write beyond the file-size limit does not end the
  // program but fails with an error.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const auto code = run(argc, argv);
    if (code == ok) // other codes already report a failure
      check_output();
    return code;
  } catch (const std::invalid_argument& e) {
    return report_error(usage_error, e.what());
  } catch (const troupe::device_lost& e) {
    return report_error(device_failed, e.what());
  } catch (const std::bad_alloc&) {
    return report_error(failed, std::string{no_memory});
  } catch (const std::system_error& e) {
    return report_error(failed, text_of(e));
  } catch (const std::exception& e) {
    return report_error(failed, e.what());
  }
}

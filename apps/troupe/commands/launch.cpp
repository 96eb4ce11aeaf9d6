#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/apps/troupe/base/signal_receiver.hpp"
#include "troupe/apps/troupe/launcher/fault_report.hpp"
#include "troupe/apps/troupe/launcher/flight_directory.hpp"
#include "troupe/apps/troupe/launcher/local_launcher.hpp"
#include "troupe/apps/troupe/launcher/server_supervisor.hpp"
#include "troupe/apps/troupe/launcher/worker_restarts.hpp"
#include "troupe/net/security/secret_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace troupe;

constexpr auto launch_examples =
  "Examples:\n"
  "  troupe launch -n 2 -- ./program --its-option\n"
  "  troupe launch -n 3 --chief -- ./program\n"
  "  troupe launch -n 3 --restarts 10 -- ./program\n"
  "  troupe launch --workers 2 --servers 2 -- ./program\n"
  "\n"
  "Each process gets TF_CONFIG, with the addresses of all and its own task, "
  "and\n"
  "TROUPE_SECRET_FILE, a file with a new secret that is removed after the "
  "job.\n"
  "The name of its process precedes each output line: [worker 1] ...\n"
  "SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) are "
  "passed\n"
  "on. After a failure or a signal, the\n"
  "other processes may continue for the grace period. Then they get SIGTERM,\n"
  "and after the same time again SIGKILL. A process that is stopped when\n"
  "another one fails gets SIGKILL immediately.\n"
  "The last line and the exit code (128 + the signal, if it was one) are "
  "those\n"
  "of the process that failed first.\n"
  "\n"
  "With --restarts, the processes are the workers of one job that goes on when "
  "a\n"
  "signal ends some of them. Each of these is started again with "
  "TROUPE_JOIN=1,\n"
  "after 100 ms, 200 ms and so on up to 5 s, and joins the job. After N "
  "restarts\n"
  "in all, or 10 within 10 s, no more are started, and the others go on. A job "
  "that\n"
  "has not begun needs all its processes: all may be started again. The job\n"
  "is complete (exit code 0) when one process ends with exit code 0; the "
  "others\n"
  "then have the grace period to end.\n"
  "\n"
  "With --servers, the processes are a chief, workers and parameter servers "
  "(ps).\n"
  "Signals are passed on to the chief. When the chief ends, the workers and "
  "servers\n"
  "get SIGTERM, and the evaluator after the grace period; if the chief's exit "
  "code is\n"
  "0 that of the tool is too. With --restarts, all others are started again "
  "when a\n"
  "signal ends them.\n";

constexpr std::uint64_t max_processes = 128;
constexpr std::uint64_t max_grace_seconds = 3600;
constexpr std::uint64_t max_restarts = 1'000'000;

struct launch_options {
  /// Without parameter servers. Zero: the number is not given.
  std::uint64_t processes = 0;
  std::uint64_t workers = 0; ///< Beside the chief of a job with servers.
  std::uint64_t servers = 0; ///< Parameter servers.
  std::uint64_t grace_seconds = 10;
  /// Restarts of processes that a signal has ended. Zero: the first one that
  /// ends in this way ends the job.
  std::uint64_t restarts = 0;
  bool chief = false, evaluator = false;
  std::string faults; ///< File of a plan of faults. Empty: no faults.
  std::vector<std::string> program;
};

/// True if a write has failed because the terminal of this process has ended.
bool has_terminal_ended(int descriptor) {
  struct stat target {};
  return errno == EIO && ::fstat(descriptor, &target) == 0
         && S_ISCHR(target.st_mode);
}

/// Writes a line in one call, so that lines of different processes do not mix.
/// No effect if the terminal has ended.
void write_line(const std::string& name, bool out, std::string_view line) {
  std::string text = "[" + name + "] ";
  text.append(line).append("\n");
  for (std::string_view rest = text; !rest.empty();) {
    const auto n =
      ::write(out ? STDOUT_FILENO : STDERR_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && has_terminal_ended(out ? STDOUT_FILENO : STDERR_FILENO))
      return;
    if (n < 0)
      throw std::runtime_error(std::string{"cannot write output of "} + name
                               + ": " + std::strerror(errno));
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Says that a signal was passed on. Zero: none was.
std::string signal_note(int signal) {
  if (signal == 0)
    return {};
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal)
         + ") was passed on; ";
}

/// Writes the last line.
/// @param how    in which way the process has failed.
/// @param signal number of a signal that was passed on. Zero: none was.
int report_failure(const child_processes& children, const process_exit& end,
                   const std::string& how, int signal) {
  std::cerr << "troupe: " << signal_note(signal) << end.name << ' ' << how
            << ": " << reason(end) << children.stopped_note() << '\n';
  return end.code;
}

/// Writes the last line after the launcher has ended the job.
int report_loss(const job_loss& loss, int signal) {
  const auto& end = loss.process;
  std::cerr << "troupe: " << signal_note(signal) << end.name << ": "
            << reason(end) << "; " << loss.how << '\n';
  return end.failed() ? end.code : failed;
}

int report_end(const child_processes& children, int signal) {
  auto first = children.first_failure();
  const auto& ends = children.ended();
  // With restarts, the end of a process by a signal is no failure of the job,
  // unless no process is left that completes it.
  if (!first && std::ranges::any_of(ends, &process_exit::failed)
      && std::ranges::none_of(ends, &process_exit::completed))
    first = first_failed_end(ends);
  if (!first)
    return ok;
  return report_failure(children, *first, "failed first", signal);
}

/// The chief of a job with parameter servers decides whether it is complete.
int report_end(const child_processes& children, const server_supervisor& job,
               int signal) {
  const auto& chief = *job.chief_end(); // all processes have ended
  if (chief.completed())
    return ok;
  if (const auto& last = job.last_worker())
    return report_failure(children, *last, "was the last worker", signal);
  if (const auto& first = children.first_failure())
    return report_failure(children, *first, "failed first", signal);
  return report_failure(children, chief, "failed", signal);
}

/// Scope of a plan of faults of the job.
injection::plan_scope scope_of(const launch_options& options) {
  if (options.servers > 0)
    return injection::scope_with_servers(
      static_cast<std::uint32_t>(options.workers),
      static_cast<std::uint32_t>(options.servers));
  return {injection::plan_scope::place::processes,
          static_cast<std::uint32_t>(options.processes)};
}

int launch(const launch_options& options) {
  const signal_receiver signals{SIGINT, SIGTERM, SIGHUP};
  std::signal(SIGPIPE, SIG_IGN); // a failed write returns an error instead
  const auto has_servers = options.servers > 0;
  const auto* const chief = has_servers ? server_supervisor::chief : "";
  const fault_report faults{options.faults, scope_of(options)};
  const net::secret_file secret;
  set_flight_directory({});
  worker_restarts restarts{options.restarts, !has_servers};
  local_launcher launcher{
    {.processes = has_servers ? 1 + options.workers : options.processes,
     .chief = has_servers || options.chief,
     .servers = options.servers,
     .evaluator = options.evaluator},
    {.grace_period = std::chrono::seconds{options.grace_seconds},
     .is_job = options.restarts > 0,
     .chief = chief,
     .on_unreachable = warn_of_unreachable,
     .is_loss = [&](const process_exit& x) { return restarts.is_loss(x); },
     .on_end =
       [&](const process_exit& x) {
         if (x.name != chief)
           restarts.on_end(x);
       },
     .on_line = write_line}};
  launcher.start(options.program, [&](const std::string&) {
    environment_changes variables{
      {"TROUPE_SECRET_FILE", secret.path().string()},
      {"TROUPE_SECRET", std::nullopt}};
    faults.add_to(variables);
    return variables;
  });
  const auto is_chief = [&](const std::string& name) { return name == chief; };
  server_supervisor servers{
    launcher, restarts, options.workers, options.restarts > 0,
    [&] { launcher.children().signal(SIGTERM, is_chief); }};
  int forwarded = 0;
  const auto on_signal = [&](int signal_number) {
    restarts.cancel();
    launcher.children().signal(signal_number, [&](const std::string& name) {
      return !has_servers || is_chief(name);
    });
    forwarded = forwarded ? forwarded : signal_number;
  };
  launcher.wait(signals, on_signal, [&] {
    if (has_servers)
      return servers.on_idle();
    return restarts.start_due(
      launcher, [&](const std::string& name) { launcher.start_again(name); });
  });
  clean_flight_directory();
  faults.print();
  if (const auto& loss = restarts.loss();
      loss && !launcher.children().is_job_done())
    return report_loss(*loss, forwarded);
  return has_servers ? report_end(launcher.children(), servers, forwarded)
                     : report_end(launcher.children(), forwarded);
}

void check(const launch_options& x) {
  const auto reject = [](const std::string& option, const std::string& why) {
    throw std::invalid_argument(option + ": " + why);
  };
  if (x.program.empty())
    throw std::invalid_argument("launch: no program; give it after --, as "
                                "in troupe launch -n 2 -- ./program");
  const auto servers = "--servers " + std::to_string(x.servers),
             workers = "--workers " + std::to_string(x.workers);
  if (x.servers > 0 && x.processes > 0)
    reject("-n " + std::to_string(x.processes),
           "a job with parameter servers has a chief, and --workers N; leave "
           "-n out");
  if (x.servers > 0 && x.workers == 0)
    reject(servers, "give the number of workers too, as in --workers 2");
  if (x.servers > 0)
    return;
  if (x.workers > 0)
    reject(workers, "give --servers too, or in place of both -n with the "
                    "number of processes");
  if (x.evaluator)
    reject("--evaluator",
           "only a job with parameter servers has one; give --workers and "
           "--servers, or leave it out");
  if (x.processes == 0)
    throw std::invalid_argument("launch: the number of processes is missing; "
                                "give -n N, or --workers N and --servers P");
}

} // namespace

void add_launch(CLI::App& tool, action& selected,
                const std::vector<std::string>& program) {
  auto& command = *tool.add_subcommand(
    "launch", "Start a job's processes on this machine: -- program args...");
  const auto options = std::make_shared<launch_options>();
  options->program = program;
  command
    .add_option_function<std::string>(
      "-n",
      [options](const std::string& text) {
        options->processes = parse_integer("-n", text, 1, max_processes);
      },
      "Number of processes")
    ->type_name("N");
  command.add_flag("--chief", options->chief,
                   "Make the first process the chief instead of worker 0");
  command
    .add_option_function<std::string>(
      "--workers",
      [options](const std::string& text) {
        options->workers = parse_integer("--workers", text, 1, max_processes);
      },
      "With --servers: number of workers, beside the chief")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--servers",
      [options](const std::string& text) {
        options->servers = parse_integer("--servers", text, 1, max_processes);
      },
      "Number of parameter servers, of job ps")
    ->type_name("P");
  command.add_flag("--evaluator", options->evaluator,
                   "With --servers: start an evaluator too");
  command
    .add_option_function<std::string>(
      "--grace",
      [options](const std::string& text) {
        options->grace_seconds =
          parse_integer("--grace", text, 0, max_grace_seconds);
      },
      "Time that others may continue after one has failed [10]")
    ->type_name("SECONDS");
  command
    .add_option_function<std::string>(
      "--restarts",
      [options](const std::string& text) {
        options->restarts = parse_integer("--restarts", text, 0, max_restarts);
      },
      "Start processes that were killed again, at most N times; they join the "
      "job [0]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--faults",
      [options](const std::string& text) {
        options->faults = parse_file_name("--faults", text);
      },
      "For tests: inject the faults of the plan in FILE (JSON) into the "
      "processes")
    ->type_name("FILE");
  command.footer(launch_examples);
  command.callback([options, &selected] {
    check(*options);
    selected = [options] { return launch(*options); };
  });
}

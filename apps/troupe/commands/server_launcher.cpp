#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/file_version.hpp"
#include "troupe/apps/troupe/base/interrupt.hpp"
#include "troupe/apps/troupe/base/signal_receiver.hpp"
#include "troupe/apps/troupe/commands/handed_model.hpp"
#include "troupe/apps/troupe/commands/train_servers.hpp"
#include "troupe/apps/troupe/launcher/fault_report.hpp"
#include "troupe/apps/troupe/launcher/job_credentials.hpp"
#include "troupe/apps/troupe/launcher/local_launcher.hpp"
#include "troupe/apps/troupe/launcher/output_collector.hpp"
#include "troupe/apps/troupe/launcher/self_command.hpp"
#include "troupe/apps/troupe/launcher/server_supervisor.hpp"
#include "troupe/apps/troupe/launcher/worker_restarts.hpp"

#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

namespace {

using namespace troupe;

constexpr auto chief_name = server_supervisor::chief;

int exit_code_of(const child_processes& children,
                 const output_collector& output, const server_supervisor& job,
                 bool was_interrupted, bool was_killed,
                 const std::string& file) {
  if (was_killed)
    return report_error(unsaved, second_interrupt);
  const auto* const end = job.chief_end();
  if (end && end->completed())
    return ok;
  const bool is_saved = end && end->signal == 0 && end->code == interrupted;
  const auto& last = job.last_worker();
  if (is_saved && (was_interrupted || !last))
    return interrupted; // it has said so
  if (last)
    return report_error(
      failed, "no worker is left; the last one was " + output.end_text(*last)
                + (is_saved ? "; the run is saved in " + file : ""));
  // A worker or server that could not begin has failed before the chief.
  const auto& first = children.first_failure();
  if (first && first->name != chief_name)
    return report_error(first->code == usage_error ? usage_error : failed,
                        output.failure_text(*first));
  if (!end)
    return report_error(failed, "the chief has not ended");
  if (end->signal != 0)
    return report_error(failed, output.end_text(*end)
                                  + "; the workers and servers of the run "
                                    "have ended with it");
  return report_error(end->code, output.end_text(*end));
}

/// Says once that the evaluator has failed.
class evaluator_watch {
public:
  void check(const child_processes& children, const output_collector& output) {
    if (was_told_)
      return;
    for (const auto& x : children.ended()) {
      if (x.name != server_supervisor::evaluator || x.signal != 0
          || !x.failed())
        continue;
      std::cerr << "warning: " << output.end_text(x)
                << "; the training goes on without it\n";
      was_told_ = true;
      return;
    }
  }

private:
  bool was_told_ = false;
};

} // namespace

int launch_with_servers(const train_config& config,
                        const train_arguments& arguments) {
  // As in `launch_workers`, the signals are blocked first.
  const signal_receiver signals{SIGINT, SIGTERM, SIGHUP};
  const fault_report faults{
    arguments.faults,
    injection::scope_with_servers(static_cast<std::uint32_t>(config.workers),
                                  static_cast<std::uint32_t>(config.servers))};
  const handed_model model{arguments, config};
  const job_credentials credentials{false};
  output_collector output{[] { return std::string{chief_name}; }};
  worker_restarts restarts{arguments.restarts, false};
  const auto earlier_version =
    arguments.evaluator ? version_of(arguments.save_path()) : std::string{};
  local_launcher launcher{
    {.processes = 1 + config.workers,
     .chief = true,
     .servers = config.servers,
     .evaluator = arguments.evaluator},
    {.grace_period = std::chrono::seconds{10},
     .is_job = true,
     .chief = chief_name,
     .on_unreachable = warn_of_unreachable,
     .on_end =
       [&](const process_exit& x) {
         if (x.name != chief_name)
           restarts.on_end(x);
       },
     .on_line =
       [&](const std::string& name, bool out, std::string_view line) {
         output.add_line(name, out, line);
       }}};
  launcher.start(self_command(), [&](const std::string& process) {
    auto variables = credentials.environment_of(process);
    faults.add_to(variables);
    model.add_to(variables);
    variables[earlier_version_variable] = earlier_version;
    if (process == chief_name)
      add_progress_columns(variables);
    return variables;
  });
  received_signals received;
  bool was_told = false, was_interrupted = false, was_killed = false;
  const auto end_chief = [&] { // it ends the others
    if (!std::exchange(was_told, true))
      launcher.children().send(chief_name, SIGINT);
  };
  server_supervisor job{launcher, restarts, config.workers, true, end_chief};
  const auto on_signal = [&](int signal_number) {
    restarts.cancel();
    if (received.repeats(signal_number)) {
      was_killed = true;
      launcher.children().send(SIGKILL);
      return;
    }
    was_interrupted |= !was_told;
    end_chief();
  };
  bool was_evaluator_told = false;
  evaluator_watch evaluator;
  launcher.wait(signals, on_signal, [&] {
    evaluator.check(launcher.children(), output);
    const auto next = job.on_idle();
    const auto* const end = job.chief_end();
    if (end && !end->completed() && !std::exchange(was_evaluator_told, true))
      launcher.children().signal( // no version follows
        SIGTERM, [](const std::string& name) {
          return name == server_supervisor::evaluator;
        });
    return next;
  });
  faults.print();
  return exit_code_of(launcher.children(), output, job, was_interrupted,
                      was_killed, arguments.save_path());
}

#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/interrupt.hpp"
#include "troupe/apps/troupe/base/signal_receiver.hpp"
#include "troupe/apps/troupe/commands/handed_model.hpp"
#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/apps/troupe/launcher/fault_report.hpp"
#include "troupe/apps/troupe/launcher/flight_directory.hpp"
#include "troupe/apps/troupe/launcher/job_credentials.hpp"
#include "troupe/apps/troupe/launcher/local_launcher.hpp"
#include "troupe/apps/troupe/launcher/output_collector.hpp"
#include "troupe/apps/troupe/launcher/self_command.hpp"
#include "troupe/apps/troupe/launcher/worker_restarts.hpp"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>
#include <set>
#include <string>

namespace {

using namespace troupe;

enum class interrupt_state { none, forwarded, repeated };

/// Waits until all workers have ended. The first interrupt is forwarded, and
/// the workers may take any time to save the run. A second signal of the same
/// number kills them, unless it is SIGHUP.
/// @param start_again starts a worker again.
interrupt_state
wait_for_end(local_launcher& launcher, const signal_receiver& signals,
             worker_restarts& restarts,
             const std::function<void(const std::string&)>& start_again) {
  received_signals received;
  auto state = interrupt_state::none;
  const auto on_signal = [&](int signal_number) {
    restarts.cancel();
    if (received.repeats(signal_number)) {
      state = interrupt_state::repeated;
      launcher.children().send(SIGKILL);
    } else if (state == interrupt_state::none) {
      state = interrupt_state::forwarded;
      launcher.children().send(SIGINT);
    }
  };
  const auto on_idle = [&] {
    return restarts.start_due(launcher, start_again);
  };
  launcher.wait(signals, on_signal, on_idle);
  return state;
}

bool exited(const process_exit& x, int code) {
  return x.signal == 0 && x.code == code;
}

/// True if a later process with the name of this one has completed or
/// saved the run.
bool was_replaced(const std::vector<process_exit>& ends,
                  const process_exit& x) {
  return std::ranges::any_of(ends, [&](const process_exit& y) {
    return y.name == x.name && (y.completed() || exited(y, interrupted));
  });
}

/// Returns how the first worker ended that the job needed and that failed by
/// itself. None: there is none, or the job was complete before.
std::optional<process_exit> error_in(const std::vector<process_exit>& ends) {
  for (const auto& x : ends) {
    if (x.completed())
      return {};
    if (x.signal == 0 && !x.may_fail && !exited(x, interrupted))
      return x;
  }
  return {};
}

/// Returns the exit code of the run, derived from the exit codes of its
/// workers.
int exit_code_of(const child_processes& children,
                 const worker_restarts& restarts,
                 const output_collector& output, interrupt_state state) {
  if (state == interrupt_state::repeated)
    return report_error(unsaved, second_interrupt);
  const auto& ends = children.ended();
  const auto has = [&](const auto& condition) {
    return std::ranges::any_of(ends, condition);
  };
  const bool saved =
    has([&](const process_exit& x) { return exited(x, interrupted); });
  const bool completed =
    has([](const process_exit& x) { return x.completed(); });
  const auto failure = error_in(ends);
  if ((saved || completed) && !failure) {
    if (state == interrupt_state::none)
      for (const auto& x : ends)
        if (x.failed() && !exited(x, interrupted) && !was_replaced(ends, x))
          std::cerr << "warning: " << output.end_text(x)
                    << "; the others have finished the job without it\n";
    return saved ? interrupted : ok;
  }
  if (const auto& loss = restarts.loss())
    return report_error(failed,
                        output.end_text(loss->process) + "; " + loss->how);
  if (std::ranges::none_of(ends, &process_exit::failed))
    return report_error(failed, "all workers have left the job");
  // A worker that has not begun to train ends with `unsaved` because others
  // end.
  const auto first =
    failure && !exited(*failure, unsaved) ? *failure : first_failed_end(ends);
  const bool forwarded = state == interrupt_state::forwarded;
  if (exited(first, unsaved) || (forwarded && first.signal == SIGINT))
    return report_error(unsaved, forwarded ? nothing_to_save
                                           : output.failure_text(first));
  const bool has_own_code =
    exited(first, usage_error) || exited(first, device_failed);
  return report_error(has_own_code ? first.code : failed,
                      output.failure_text(first) + children.stopped_note());
}

} // namespace

int launch_workers(const train_config& config,
                   const train_arguments& arguments) {
  // The signals are blocked before the first file is created. Otherwise a
  // signal could end this process before it has removed its files.
  const signal_receiver signals{SIGINT, SIGTERM, SIGHUP};
  const fault_report faults{arguments.faults,
                            {injection::plan_scope::place::processes,
                             static_cast<std::uint32_t>(config.workers),
                             static_cast<std::uint32_t>(config.replicas)}};
  const handed_model model{arguments, config};
  const job_credentials credentials{config.transport == "tls"};
  std::set<std::string> lost; // workers that a signal has ended, or that left
  output_collector output{[&] {
    // A chief that is lost is succeeded by the next worker.
    for (std::uint64_t w = 0; w < config.workers; ++w)
      if (const auto name = "worker " + std::to_string(w); !lost.contains(name))
        return name;
    return std::string{};
  }};
  worker_restarts restarts{arguments.restarts, true};
  local_launcher launcher{
    {config.workers},
    {.grace_period = std::chrono::seconds{10},
     .is_job = true,
     .on_unreachable = warn_of_unreachable,
     .is_loss = [&](const process_exit& x) { return restarts.is_loss(x); },
     .on_end =
       [&](const process_exit& x) {
         if (x.signal != 0 || x.left)
           lost.insert(x.name);
         restarts.on_end(x);
       },
     .on_line =
       [&](const std::string& name, bool out, std::string_view line) {
         output.add_line(name, out, line);
       }}};
  launcher.start(self_command(), [&](const std::string& worker) {
    auto variables = credentials.environment_of(worker);
    faults.add_to(variables);
    model.add_to(variables);
    add_progress_columns(variables);
    return variables;
  });
  const auto start_again = [&](const std::string& worker) {
    launcher.start_again(worker);
    lost.erase(worker);
  };
  const auto state = wait_for_end(launcher, signals, restarts, start_again);
  clean_flight_directory();
  faults.print();
  return exit_code_of(launcher.children(), restarts, output, state);
}

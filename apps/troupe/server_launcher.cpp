#include "command.hpp"
#include "interrupt.hpp"
#include "job_credentials.hpp"
#include "local_launcher.hpp"
#include "output_collector.hpp"
#include "self_command.hpp"
#include "signal_receiver.hpp"
#include "train_servers.hpp"
#include "worker_restarts.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <set>
#include <string>

namespace {

using namespace troupe;

constexpr auto chief = "chief 0";

bool is_worker(const std::string& name) {
  return name.starts_with("worker ");
}

/// Returns how the chief has ended. Null: it runs.
const process_exit* chief_end(const child_processes& children) {
  const auto& ends = children.ended();
  const auto found = std::ranges::find(ends, chief, &process_exit::name);
  return found == ends.end() ? nullptr : &*found;
}

/// Returns the last end of a worker if all have failed. Null: one runs, or was
/// told to end by the chief.
/// @param starts of workers.
const process_exit* last_worker_end(const child_processes& children,
                                    std::uint64_t starts) {
  const auto is_lost_worker = [](const process_exit& x) {
    return is_worker(x.name) && x.failed();
  };
  const auto& ends = children.ended();
  if (static_cast<std::uint64_t>(std::ranges::count_if(ends, is_lost_worker))
      < starts)
    return nullptr;
  return &*std::find_if(ends.rbegin(), ends.rend(), is_lost_worker);
}

int exit_code_of(const child_processes& children,
                 const output_collector& output, bool was_killed,
                 const std::string& no_workers) {
  if (was_killed)
    return report_error(unsaved, second_interrupt);
  const auto* const end = chief_end(children);
  if (end && end->completed())
    return ok;
  if (end && end->signal == 0 && end->code == interrupted)
    return interrupted; // it has said so
  if (!no_workers.empty())
    return report_error(failed, no_workers);
  // A worker or server that could not begin has failed before the chief.
  const auto& first = children.first_failure();
  if (first && first->name != chief)
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

} // namespace

int launch_with_servers(const train_config& config,
                        std::uint64_t max_restarts) {
  // As in `launch_workers`, the signals are blocked first.
  const signal_receiver signals{SIGINT, SIGTERM};
  const job_credentials credentials{false};
  output_collector output{[] { return std::string{chief}; }};
  worker_restarts restarts{max_restarts};
  local_launcher launcher{
    {.processes = 1 + config.workers, .chief = true, .servers = config.servers},
    {.grace_period = std::chrono::seconds{10},
     .is_job = true,
     .on_unreachable = warn_of_unreachable,
     .on_end =
       [&](const process_exit& x) {
         // Without copies, the state of a server is lost with it.
         if (is_worker(x.name)
             || (config.replication > 1 && x.name.starts_with("ps ")))
           restarts.on_end(x);
       },
     .on_line =
       [&](const std::string& name, bool out, std::string_view line) {
         output.add_line(name, out, line);
       }}};
  launcher.start(self_command(), [&](const std::string& process) {
    return credentials.environment_of(process);
  });
  std::set<int> received;
  bool was_killed = false, is_ending = false;
  std::uint64_t starts = config.workers; // of workers
  std::string no_workers; // why the run was ended. Empty: there were some
  const auto on_signal = [&](int signal_number) {
    restarts.cancel();
    if (received.insert(signal_number).second) {
      launcher.children().send(chief, SIGINT); // it ends the others
    } else {
      was_killed = true;
      launcher.children().send(SIGKILL);
    }
  };
  const auto on_idle =
    [&]() -> std::optional<std::chrono::steady_clock::time_point> {
    if (chief_end(launcher.children())) {
      restarts.cancel();
      if (!is_ending)
        launcher.children().signal(SIGTERM);
      is_ending = true;
    }
    const auto next =
      restarts.start_due(launcher, [&](const std::string& name) {
        launcher.start_again(name);
        starts += is_worker(name) ? 1 : 0;
      });
    const auto* const last = last_worker_end(launcher.children(), starts);
    if (!is_ending && !next && last) {
      no_workers =
        "no worker is left; the last one was " + output.end_text(*last);
      launcher.children().signal(SIGTERM);
      is_ending = true;
    }
    return next;
  };
  launcher.wait(signals, on_signal, on_idle);
  return exit_code_of(launcher.children(), output, was_killed, no_workers);
}

#pragma once

#include "troupe/apps/troupe/base/signal_receiver.hpp"
#include "troupe/apps/troupe/launcher/child_processes.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/cluster_task.hpp"
#include "troupe/net/io/reserved_ports.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Starts the processes of one job on this machine, and waits for them. It
/// chooses their addresses, which are free ports of 127.0.0.1.
class local_launcher {
public:
  struct job_shape {
    std::size_t processes = 1; ///< Without the servers.
    bool chief = false;      ///< The first process is the chief, not worker 0.
    std::size_t servers = 0; ///< Parameter servers, of job "ps".
    /// A further process, which has no address. If it fails, the job has not
    /// failed.
    bool evaluator = false;

    /// No process can begin the job without the others.
    bool begins_together() const { return servers == 0; }
  };

  local_launcher(const job_shape& shape, child_processes_options options);

  /// Starts all processes with the same command. The variable TF_CONFIG tells a
  /// process the addresses of all processes and its own task.
  /// @param credentials_of returns further environment variables of the process
  ///        with this name, such as "worker 1".
  /// @errors throws as `child_processes::start`.
  void start(const std::vector<std::string>& command,
             const std::function<environment_changes(const std::string&)>&
               credentials_of);

  /// Starts one process again, with the same command and variables. If a
  /// process has said that the job has begun, the new one joins the running job
  /// (`net::launcher_link::joiner_variable`). If the new one fails, the job has
  /// not failed.
  /// @param name of the process, which has ended.
  /// @errors throws as `child_processes::start`.
  void start_again(const std::string& name);

  /// Waits until all processes have ended and no further one is started.
  /// @param on_signal called with the number of each signal that arrives.
  /// @param on_idle called after each event. It may start processes again, and
  ///        returns the time of its next call. None: no call is needed.
  void wait(
    const signal_receiver& signals, const std::function<void(int)>& on_signal,
    const std::function<std::optional<std::chrono::steady_clock::time_point>()>&
      on_idle = {});

  /// Names of all processes of the job.
  std::vector<std::string> names() const;

  child_processes& children() { return children_; }
  const child_processes& children() const { return children_; }

private:
  void start(const troupe::net::cluster_task& task,
             const std::vector<std::string>& command,
             environment_changes variables);

  const job_shape shape_;
  troupe::net::reserved_ports ports_; ///< They stay reserved during the job.
  troupe::net::cluster_spec cluster_;
  std::map<std::string, process_spec> started_; ///< By name.
  child_processes children_;
};

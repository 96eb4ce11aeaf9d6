#include "command.hpp"
#include "fault_report.hpp"
#include "interrupt.hpp"
#include "local_launcher.hpp"
#include "signal_receiver.hpp"
#include "train.hpp"
#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/security/certificates.hpp"
#include "troupe/net/security/secret_file.hpp"
#include "worker_restarts.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace {

using namespace troupe;
namespace fs = std::filesystem;

/// A directory for one run that only this user can read. The destructor removes
/// it.
class private_directory {
public:
  private_directory() {
    auto name = (fs::temp_directory_path() / "troupe-run-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      throw std::runtime_error(
        "cannot create a directory for certificates in \""
        + fs::temp_directory_path().string() + "\": " + std::strerror(errno));
    path_ = name;
  }
  ~private_directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  private_directory(const private_directory&) = delete;
  private_directory& operator=(const private_directory&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    net::write_new_file(path_ / name, text, net::file_access::owner);
    return (path_ / name).string();
  }

private:
  fs::path path_;
};

/// Credentials by which the workers of one run authenticate each other.
class job_credentials {
public:
  explicit job_credentials(bool tls) {
    if (!tls) {
      secret_.emplace();
      return;
    }
    authority_ = net::make_authority({.name = "troupe run"});
    directory_.emplace();
  }

  /// Returns the environment variables with which a worker is started.
  environment_changes environment_of(const std::string& worker) const {
    environment_changes out;
    for (const auto* name :
         {"TROUPE_SECRET", "TROUPE_SECRET_FILE", "TROUPE_TLS_CA",
          "TROUPE_TLS_CERTIFICATE", "TROUPE_TLS_KEY"})
      out[name] = std::nullopt; // the caller's credentials are not used
    if (secret_) {
      out["TROUPE_SECRET_FILE"] = secret_->path().string();
      return out;
    }
    const auto certificate =
      net::make_certificate(authority_, {.name = worker});
    out["TROUPE_TLS_CA"] =
      directory_->write(worker + "-ca.pem", authority_.certificate);
    out["TROUPE_TLS_CERTIFICATE"] =
      directory_->write(worker + ".pem", certificate.certificate);
    out["TROUPE_TLS_KEY"] =
      directory_->write(worker + "-key.pem", certificate.key);
    return out;
  }

private:
  std::optional<net::secret_file> secret_;
  std::optional<private_directory> directory_;
  net::certified_key authority_;
};

/// Returns the command line of this process, with the path of its executable.
std::vector<std::string> self_command() {
  std::ifstream input{"/proc/self/cmdline"};
  std::vector<std::string> words;
  for (std::string word; std::getline(input, word, '\0');)
    words.push_back(word);
  if (words.empty())
    throw std::runtime_error("cannot read /proc/self/cmdline, which is "
                             "needed to start the workers");
  words.front() = fs::read_symlink("/proc/self/exe").string();
  return words;
}

/// Collects the output of the workers. Results, progress and lines of the
/// leader are written unchanged; another line of another worker is prefixed
/// with the worker's name. The error line of each worker is not written but
/// kept for `failure_text`.
class output_collector {
public:
  /// @param leader Returns the name of the worker that leads.
  explicit output_collector(std::function<std::string()> leader)
    : leader_{std::move(leader)} {}

  void add_line(const std::string& name, bool out, std::string_view line) {
    constexpr std::string_view error = "troupe: ";
    if (!out && line.starts_with(error)) {
      errors_[name] = line.substr(error.size());
      return;
    }
    auto& stream = out ? std::cout : std::cerr;
    // Only the leader writes results and progress. A process that was started
    // again leads from the time at which it joins.
    if (!out && name != leader_() && !line.starts_with("epoch "))
      stream << '[' << name << "] ";
    stream << line << '\n' << std::flush;
  }

  /// Says how a worker has ended: with its error, or by a signal.
  std::string end_text(const process_exit& ended) const {
    const auto found = errors_.find(ended.name);
    return ended.name + ": "
           + (ended.signal == 0 && found != errors_.end() ? found->second
                                                          : reason(ended));
  }

  std::string failure_text(const process_exit& ended) const {
    const auto text = end_text(ended);
    if (ended.signal == 0 && errors_.contains(ended.name))
      return text;
    // A signal ended the worker, or the worker wrote no error. Append the error
    // of another worker: it says in which step the first worker was lost.
    for (const auto& [name, error] : errors_)
      if (name != ended.name)
        return text + "; " + name + ": " + error;
    return text;
  }

private:
  std::function<std::string()> leader_;
  std::map<std::string, std::string> errors_;
};

enum class interrupt_state { none, forwarded, repeated };

/// Waits until all workers have ended. The first interrupt is forwarded, and
/// the workers may take any time to save the run. A second signal of the same
/// number kills them.
/// @param start_again starts a worker again.
interrupt_state
wait_for_end(local_launcher& launcher, const signal_receiver& signals,
             worker_restarts& restarts,
             const std::function<void(const std::string&)>& start_again) {
  std::set<int> received;
  auto state = interrupt_state::none;
  const auto on_signal = [&](int signal_number) {
    restarts.cancel();
    if (!received.insert(signal_number).second) {
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
  return report_error(first.code == usage_error ? usage_error : failed,
                      output.failure_text(first) + children.stopped_note());
}

} // namespace

int launch_workers(const train_config& config, std::uint64_t max_restarts,
                   const std::string& faults_file) {
  // The signals are blocked before the first file is created. Otherwise a
  // signal could end this process before it has removed its files.
  const signal_receiver signals{SIGINT, SIGTERM};
  const fault_report faults{faults_file, config.workers, config.replicas};
  const job_credentials credentials{config.transport == "tls"};
  std::set<std::string> lost; // workers that a signal has ended, or that left
  output_collector output{[&] {
    // A chief that is lost is succeeded by the next worker.
    for (std::uint64_t w = 0; w < config.workers; ++w)
      if (const auto name = "worker " + std::to_string(w); !lost.contains(name))
        return name;
    return std::string{};
  }};
  worker_restarts restarts{max_restarts};
  local_launcher launcher{
    {config.workers},
    {.grace_period = std::chrono::seconds{10},
     .is_job = true,
     .on_unreachable = warn_of_unreachable,
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
    return variables;
  });
  const auto start_again = [&](const std::string& worker) {
    launcher.start_again(worker);
    lost.erase(worker);
  };
  const auto state = wait_for_end(launcher, signals, restarts, start_again);
  faults.print();
  return exit_code_of(launcher.children(), output, state);
}

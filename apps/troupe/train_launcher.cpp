#include "child_processes.hpp"
#include "command.hpp"
#include "heard_signals.hpp"
#include "interrupt.hpp"
#include "train.hpp"
#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/net/security/certificates.hpp"
#include "troupe/net/security/secret_file.hpp"

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
class private_folder {
public:
  private_folder() {
    auto name = (fs::temp_directory_path() / "troupe-run-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      throw std::runtime_error(
        "cannot create a directory for certificates in \""
        + fs::temp_directory_path().string() + "\": " + std::strerror(errno));
    path_ = name;
  }
  ~private_folder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  private_folder(const private_folder&) = delete;
  private_folder& operator=(const private_folder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    net::write_new_file(path_ / name, text, net::readers::owner);
    return (path_ / name).string();
  }

private:
  fs::path path_;
};

using environment = decltype(child_program::environment);

/// Credentials by which the workers of one run authenticate each other.
class run_credentials {
public:
  explicit run_credentials(bool tls) {
    if (!tls) {
      secret_.emplace();
      return;
    }
    authority_ = net::make_authority({.name = "troupe run"});
    folder_.emplace();
  }

  /// @returns the variables with which a worker is started.
  environment of(const std::string& worker) const {
    environment out;
    for (const auto* name :
         {"TROUPE_SECRET", "TROUPE_SECRET_FILE", "TROUPE_TLS_CA",
          "TROUPE_TLS_CERTIFICATE", "TROUPE_TLS_KEY"})
      out[name] =
        std::nullopt; // the caller's credentials are not used in this run
    if (secret_) {
      out["TROUPE_SECRET_FILE"] = secret_->path().string();
      return out;
    }
    const auto one = net::make_certificate(authority_, {.name = worker});
    out["TROUPE_TLS_CA"] =
      folder_->write(worker + "-ca.pem", authority_.certificate);
    out["TROUPE_TLS_CERTIFICATE"] =
      folder_->write(worker + ".pem", one.certificate);
    out["TROUPE_TLS_KEY"] = folder_->write(worker + "-key.pem", one.key);
    return out;
  }

private:
  std::optional<net::secret_file> secret_;
  std::optional<private_folder> folder_;
  net::identity authority_;
};

/// @returns the command line of this process, with the path of its executable.
std::vector<std::string> own_command() {
  std::ifstream in{"/proc/self/cmdline"};
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');)
    words.push_back(word);
  if (words.empty())
    throw std::runtime_error("cannot read /proc/self/cmdline, which is "
                             "needed to start the workers");
  words.front() = fs::read_symlink("/proc/self/exe").string();
  return words;
}

/// Collects the output of the workers. Lines of the leader are written as they
/// are, lines of other workers behind their name. The error line of each worker
/// is kept for `failure_text`.
class listener {
public:
  explicit listener(std::string leader) : leader_{std::move(leader)} {}

  void hear(const std::string& name, bool out, std::string_view line) {
    constexpr std::string_view error = "troupe: ";
    if (!out && line.starts_with(error)) {
      errors_[name] = line.substr(error.size());
      return;
    }
    auto& to = out ? std::cout : std::cerr;
    if (name != leader_)
      to << '[' << name << "] ";
    to << line << '\n' << std::flush;
  }

  std::string why(const child_end& x) const {
    const auto said = errors_.find(x.name);
    if (x.signal == 0 && said != errors_.end())
      return x.name + ": " + said->second;
    const auto text = x.name + ": " + reason(x);
    for (const auto& [name, heard] :
         errors_) // says in which step the peer was lost
      if (name != x.name)
        return text + "; " + name + ": " + heard;
    return text;
  }

private:
  std::string leader_;
  std::map<std::string, std::string> errors_;
};

enum class interruption { none, passed_on, repeated };

/// Waits until all workers have ended. The first interrupt is passed on, and
/// the workers may take any time to save the run. A second signal of the same
/// number kills them.
interruption wait_for_end(children& all, const heard_signals& heard) {
  std::set<int> came;
  auto how = interruption::none;
  while (all.running()) {
    all.pump(std::chrono::seconds{60}, heard.descriptor());
    while (const auto number = heard.take()) {
      if (!came.insert(number).second) {
        how = interruption::repeated;
        all.send(SIGKILL);
      } else if (how == interruption::none) {
        how = interruption::passed_on;
        all.send(SIGINT);
      }
    }
  }
  return how;
}

/// @returns the exit code of the run, derived from those of its workers.
int conclude(const children& all, const listener& heard, interruption how) {
  if (how == interruption::repeated)
    return say(unsaved, second_interrupt);
  const auto exited = [](const child_end& x, int code) {
    return x.signal == 0 && x.code == code;
  };
  const auto& ends = all.ended();
  // The first failure causes the later ones, since `child_processes` ends the
  // other workers.
  const auto first = std::ranges::find_if(ends, [&](const child_end& x) {
    return x.failed() && !exited(x, interrupted);
  });
  if (first == ends.end()) {
    const bool saved = std::ranges::any_of(
      ends, [&](const child_end& x) { return exited(x, interrupted); });
    return saved ? interrupted : ok;
  }
  const bool passed_on = how == interruption::passed_on;
  if (exited(*first, unsaved) || (passed_on && first->signal == SIGINT))
    return say(unsaved, passed_on ? nothing_to_save : heard.why(*first));
  return say(first->code == misused ? misused : failed,
             heard.why(*first) + all.said_of_stopped());
}

} // namespace

int train_in_processes(const settled_job& job) {
  // Block signals before anything is created that has to be removed.
  const heard_signals interrupts{SIGINT, SIGTERM};
  const net::held_ports ports{job.workers};
  const run_credentials credentials{job.transport == "tls"};
  net::cluster_spec::list addresses;
  for (const auto port : ports.numbers())
    addresses.push_back("127.0.0.1:" + std::to_string(port));
  const net::cluster_spec cluster{
    std::map<std::string, net::cluster_spec::list>{{"worker", addresses}}};
  listener heard{"worker 0"};
  children all{
    {.grace = std::chrono::seconds{10},
     .on_line = [&](const std::string& name, bool out, std::string_view line) {
       heard.hear(name, out, line);
     }}};
  const auto command = own_command();
  for (net::task_index i = 0; i < job.workers; ++i) {
    const net::cluster_task task{"worker", i};
    auto own = credentials.of(to_string(task));
    own["TF_CONFIG"] = net::write_tf_config(cluster, task);
    all.start({to_string(task), command, std::move(own)});
  }
  const auto how = wait_for_end(all, interrupts);
  return conclude(all, heard, how);
}

#include "troupe/benchmarks/local_job.hpp"

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/cluster/simple_resolver.hpp"
#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/net/security/certificates.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::benchmarks {

namespace {

/// A temporary directory. The destructor removes it.
class scratch_directory {
public:
  scratch_directory() {
    auto name =
      (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("cannot create a directory " + name);
    path_ = name;
  }
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    net::write_new_file(path_ / name, text, net::file_access::owner);
    return path_ / name;
  }

private:
  std::filesystem::path path_;
};

transport_kind kind_of(const std::string& name) {
  if (name == "shm")
    return transport_kind::shm;
  if (name == "tcp")
    return transport_kind::tcp;
  if (name == "tls")
    return transport_kind::tls;
  return transport_kind::automatic;
}

net::credentials credentials_for(const std::string& transport,
                                 const scratch_directory& directory) {
  net::credentials out;
  if (transport != "tls")
    return out;
  const auto authority = net::make_authority({.name = "benchmark"});
  const auto certificate = net::make_certificate(authority, {});
  out.tls = std::make_shared<const net::credentials::certificates>(
    net::credentials::certificates{
      directory.write("ca.pem", authority.certificate),
      directory.write("own.pem", certificate.certificate),
      directory.write("own.key", certificate.key)});
  return out;
}

} // namespace

void run_local_job(
  const local_job& job,
  const std::function<void(const multi_worker_mirrored_strategy&,
                           std::uint32_t rank)>& fn) {
  const net::reserved_ports ports{job.processes};
  const scratch_directory directory;
  multi_worker_options options;
  options.transport = kind_of(job.transport);
  options.communication.implementation =
    parse_implementation(job.implementation);
  options.connection.heartbeat_interval = job.heartbeat_interval;
  options.connection.heartbeat_timeout = std::max<std::chrono::milliseconds>(
    10 * job.heartbeat_interval, std::chrono::seconds{1});
  options.connection.credentials = credentials_for(job.transport, directory);
  std::vector<std::string> addresses;
  for (const auto port : ports.numbers())
    addresses.push_back("127.0.0.1:" + std::to_string(port));

  const auto run_rank = [&](std::uint32_t rank) {
    runtime actors;
    const net::simple_resolver resolver{
      net::cluster_spec{
        std::map<std::string, net::cluster_spec::list>{{"worker", addresses}}},
      {.task_type = "worker", .task_id = rank}};
    const multi_worker_mirrored_strategy workers{actors, resolver, options};
    fn(workers, rank);
  };
  std::vector<pid_t> children;
  for (std::uint32_t rank = 1; rank < job.processes; ++rank) {
    const auto child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      run_rank(rank);
      ::_exit(0);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %u: %s\n", rank, e.what());
      ::_exit(1);
    }
  }
  run_rank(0);
  for (const auto one : children) {
    int status = 0;
    if (::waitpid(one, &status, 0) != one || status != 0)
      throw std::runtime_error("a process of the job failed");
  }
}

} // namespace troupe::benchmarks

#include "troupe/benchmarks/node_process.hpp"

#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::benchmarks {

namespace {

[[noreturn]] void serve(int to_parent,
                        const std::function<void(runtime&)>& register_roles) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    runtime actors;
    register_roles(actors);
    node_server node{actors};
    const auto& address = node.address();
    if (::write(to_parent, address.data(), address.size())
        != static_cast<ssize_t>(address.size()))
      ::_exit(1);
    ::close(to_parent);
    while (!node.wait_for_stop(std::chrono::seconds{1})) {
    }
    ::_exit(0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "node: %s\n", e.what());
    ::_exit(1);
  }
}

} // namespace

node_process::node_process(
  const std::function<void(runtime&)>& register_roles) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0)
    throw std::runtime_error("cannot make a pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pipe[0]);
    serve(pipe[1], register_roles);
  }
  ::close(pipe[1]);
  std::array<char, 64> part{};
  for (ssize_t n = 0; (n = ::read(pipe[0], part.data(), part.size())) > 0;)
    address_.append(part.data(), static_cast<std::size_t>(n));
  ::close(pipe[0]);
  if (pid_ < 0 || address_.empty())
    throw std::runtime_error("a node has not started");
}

node_process::~node_process() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

double node_process::resident_bytes() const {
  std::ifstream status{"/proc/" + std::to_string(pid_) + "/status"};
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      double kib = 0;
      status >> kib;
      return 1024 * kib;
    }
  throw std::runtime_error("a node has ended");
}

} // namespace troupe::benchmarks

#include "troupe/actors/faults/process_faults.hpp"

#include "troupe/net/io/cut_connections.hpp"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::injection {

namespace {

timespec to_timespec(std::chrono::nanoseconds x) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(x);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>((x - seconds).count())};
}

/// Runs in the child process, which may only make system calls: other threads
/// may have held locks when it was made.
[[noreturn]] void stop_parent(pid_t parent, timespec time) {
  // The kernel ends the child with the thread that has made it. The child holds
  // no connection of its parent open.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  if (::getppid() == parent && ::kill(parent, SIGSTOP) == 0) {
    while (::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR) {
    }
    ::kill(parent, SIGCONT);
  }
  ::_exit(0);
}

} // namespace

void kill_this_process() {
  ::kill(::getpid(), SIGKILL);
  for (;;)
    ::pause(); // the signal is delivered before
}

void stop_this_process(std::chrono::nanoseconds time) {
  const auto parent = ::getpid();
  const auto for_child = to_timespec(time);
  const auto child = ::fork();
  if (child == 0)
    stop_parent(parent, for_child);
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::size_t cut_connections(const std::vector<net::address>& addresses,
                            std::uint32_t own_task,
                            std::optional<std::uint32_t> peer) {
  std::set<std::string> dialed;
  for (std::uint32_t task = 0; task < addresses.size(); ++task)
    if (task != own_task && (!peer || peer == task))
      for (const auto& one : net::resolve(addresses[task]).found)
        dialed.insert(to_string(one));
  return net::cut_connections(
    [&](const net::socket_address& own, const net::socket_address& other) {
      return dialed.contains(to_string(other))
             || (!peer && own.port() == addresses[own_task].port);
    });
}

process_faults real_process_faults(std::vector<net::address> addresses,
                                   std::uint32_t own_task, bool lower_dials) {
  return {
    .lower_dials = lower_dials,
    .kill = kill_this_process,
    .stop = stop_this_process,
    .cut =
      [addresses = std::move(addresses),
       own_task](std::optional<std::uint32_t> peer) {
        return cut_connections(addresses, own_task, peer);
      },
    .wait =
      [](std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }};
}

} // namespace troupe::injection

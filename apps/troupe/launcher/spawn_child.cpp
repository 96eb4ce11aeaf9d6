#include "troupe/apps/troupe/launcher/spawn_child.hpp"

#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/net/io/process_handle.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace {

using troupe::net::descriptor;

struct pipe_ends {
  descriptor read, write;
};

pipe_ends make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::runtime_error(std::string{"cannot make a pipe: "}
                             + std::strerror(errno));
  return {descriptor{ends[0]}, descriptor{ends[1]}};
}

struct link_ends {
  descriptor own, child;
};

link_ends make_link() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error(std::string{"cannot make a pair of sockets: "}
                             + std::strerror(errno));
  return {descriptor{ends[0]}, descriptor{ends[1]}};
}

/// Opens a pidfd by its system call, because glibc 2.36 declares pidfd_open
/// without C linkage.
int open_pidfd(pid_t id) {
  return static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
}

/// Returns a null-terminated array of pointers into `texts`. The texts must
/// outlive the array.
std::vector<char*> to_pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& one : texts)
    result.push_back(one.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_for(
  const std::map<std::string, std::optional<std::string>>& overrides) {
  std::vector<std::string> entries;
  for (auto** it = environ; *it; ++it) {
    const std::string_view entry{*it};
    if (!overrides.contains(std::string{entry.substr(0, entry.find('='))}))
      entries.emplace_back(entry);
  }
  for (const auto& [name, value] : overrides)
    if (value)
      entries.push_back(name + "=" + *value);
  return entries;
}

/// Data that a child needs before `exec`. It is prepared before the fork,
/// because only async-signal-safe functions may be called after the fork.
struct exec_plan {
  std::vector<char*> command, environment;
  pid_t parent;
  int out, err, error_pipe, link;
};

[[noreturn]] void exec_child(const exec_plan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent)
    ::_exit(127); // the parent died before prctl took effect
  ::setpgid(0, 0);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(plan.out, STDOUT_FILENO);
  ::dup2(plan.err, STDERR_FILENO);
  ::fcntl(plan.link, F_SETFD, 0); // stays open in the program
  ::execvpe(plan.command[0], plan.command.data(), plan.environment.data());
  const int error_number = errno;
  if (::write(plan.error_pipe, &error_number, sizeof error_number)
      != sizeof error_number)
    ::_exit(126);
  ::_exit(127);
}

/// Waits until the child has executed its program. @returns 0, or the errno of
/// the failure.
int read_exec_error(const descriptor& pipe) {
  int error_number = 0;
  ssize_t n = 0;
  do
    n = ::read(pipe.get(), &error_number, sizeof error_number);
  while (n < 0 && errno == EINTR);
  return n == sizeof error_number ? error_number : 0;
}

[[noreturn]] void throw_exec_error(const std::string& program,
                                   int error_number) {
  const auto text =
    "cannot run \"" + program + "\": " + std::strerror(error_number);
  if (error_number == ENOENT || error_number == EACCES
      || error_number == ENOEXEC || error_number == ENOTDIR)
    throw std::invalid_argument(text
                                + "; name a program that is in PATH, or "
                                  "give its path");
  throw std::runtime_error(text);
}

/// What the process of a `group_guard` does: keeps a list of groups, and kills
/// those that are left at the end of the pipe. Calls only functions that may be
/// called after a fork.
[[noreturn]] void guard_groups(int pipe) {
  ::setsid();
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::dup2(pipe, 0);
  ::syscall(SYS_close_range, 1u, ~0u, 0u); // others wait for their ends
  std::array<pid_t, 1024> groups;
  std::size_t count = 0;
  for (pid_t word = 0;;) {
    const auto n = ::read(0, &word, sizeof word);
    if (n < 0 && errno == EINTR)
      continue;
    if (n != sizeof word)
      break;
    auto* const end = groups.data() + count;
    auto* const found = std::find(groups.data(), end, -word);
    if (word > 0 && count < groups.size())
      groups[count++] = word;
    else if (word < 0 && found != end)
      *found = groups[--count];
  }
  for (std::size_t i = 0; i < count; ++i)
    ::kill(-groups[i], SIGKILL);
  ::_exit(0);
}

} // namespace

group_guard::group_guard() {
  auto pipe = make_pipe();
  const auto id = ::fork();
  if (id == 0) { // its child has no parent that must wait for it
    const auto guard = ::fork();
    if (guard == 0)
      guard_groups(pipe.read.get());
    ::_exit(guard < 0 ? 1 : 0);
  }
  int status = 1;
  while (id > 0 && ::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  if (id < 0 || status != 0)
    throw std::runtime_error("cannot start the process that ends others");
  pipe_ = std::move(pipe.write);
}

void group_guard::tell(pid_t word) const {
  [[maybe_unused]] const auto written =
    ::write(pipe_.get(), &word, sizeof word); // no effect without the process
}

child_process spawn_child(const process_spec& spec, bool is_witness) {
  auto out = make_pipe(), err = make_pipe(), error_pipe = make_pipe();
  auto link = make_link();
  auto words = spec.command;
  auto variables = spec.variables;
  using troupe::net::launcher_link;
  variables[launcher_link::variable] =
    std::to_string(link.child.get())
    + (is_witness ? "" : launcher_link::no_witness);
  auto environment = environment_for(variables);
  const exec_plan plan{to_pointers(words), to_pointers(environment),
                       ::getpid(),         out.write.get(),
                       err.write.get(),    error_pipe.write.get(),
                       link.child.get()};
  const auto id = ::fork();
  if (id < 0)
    throw std::runtime_error(std::string{"cannot start a process: "}
                             + std::strerror(errno));
  if (id == 0)
    exec_child(plan);
  ::setpgid(id, id); // parent and child both do it: either may run first
  error_pipe.write.reset();
  const auto exec_error = read_exec_error(error_pipe.read);
  descriptor pidfd{exec_error == 0 ? open_pidfd(id) : -1};
  if (!pidfd) {
    const auto pidfd_error = errno;
    ::kill(id, SIGKILL);
    ::waitpid(id, nullptr, 0);
    if (exec_error != 0)
      throw_exec_error(spec.command.front(), exec_error);
    throw std::runtime_error("cannot watch the process of \""
                             + spec.command.front()
                             + "\": " + std::strerror(pidfd_error));
  }
  for (const auto* end : {&out.read, &err.read, &link.own})
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return {id,
          troupe::net::start_time_of_process(static_cast<std::uint64_t>(id)),
          std::move(pidfd),
          std::move(out.read),
          std::move(err.read),
          std::move(link.own)};
}

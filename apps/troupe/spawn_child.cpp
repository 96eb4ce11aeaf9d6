#include "spawn_child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// Opens a pidfd by its system call, because glibc 2.36 declares pidfd_open
/// without C linkage.
int open_life(pid_t id) {
  return static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
}

/// @returns a null-terminated array of pointers into `texts`, which must
/// outlive it.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& one : texts)
    all.push_back(one.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string>
environment_for(const std::map<std::string, std::optional<std::string>>& own) {
  std::vector<std::string> all;
  for (auto** it = environ; *it; ++it) {
    const std::string_view one{*it};
    if (!own.contains(std::string{one.substr(0, one.find('='))}))
      all.emplace_back(one);
  }
  for (const auto& [name, value] : own)
    if (value)
      all.push_back(name + "=" + *value);
  return all;
}

/// Data that a child needs before `exec`. It is prepared before the fork,
/// because only async-signal-safe functions may be called afterwards.
struct plan {
  std::vector<char*> command, environment;
  pid_t parent;
  int out, err, trouble;
};

[[noreturn]] void become(const plan& x) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != x.parent)
    ::_exit(127); // the parent died before prctl took effect
  ::setpgid(0, 0);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(x.out, STDOUT_FILENO);
  ::dup2(x.err, STDERR_FILENO);
  ::execvpe(x.command[0], x.command.data(), x.environment.data());
  const int why = errno;
  if (::write(x.trouble, &why, sizeof why) != sizeof why)
    ::_exit(126);
  ::_exit(127);
}

/// Waits until the child has executed its program. @returns 0, or the errno of
/// the failure.
int trouble_of(const descriptor& pipe) {
  int why = 0;
  ssize_t n = 0;
  do
    n = ::read(pipe.get(), &why, sizeof why);
  while (n < 0 && errno == EINTR);
  return n == sizeof why ? why : 0;
}

[[noreturn]] void refuse(const std::string& program, int why) {
  const auto text = "cannot run \"" + program + "\": " + std::strerror(why);
  if (why == ENOENT || why == EACCES || why == ENOEXEC || why == ENOTDIR)
    throw std::invalid_argument(text
                                + "; name a program that is in PATH, or "
                                  "give its path");
  throw std::runtime_error(text);
}

} // namespace

process start_process(const child_program& what) {
  auto out = make_pipe(), err = make_pipe(), trouble = make_pipe();
  auto words = what.command;
  auto environment = environment_for(what.environment);
  const plan x{pointers(words), pointers(environment), ::getpid(),
               out.write.get(), err.write.get(),       trouble.write.get()};
  const auto id = ::fork();
  if (id < 0)
    throw std::runtime_error(std::string{"cannot start a process: "}
                             + std::strerror(errno));
  if (id == 0)
    become(x);
  ::setpgid(id, id); // parent and child both do it: either may run first
  trouble.write.reset();
  const auto why = trouble_of(trouble.read);
  descriptor life{why == 0 ? open_life(id) : -1};
  if (!life) {
    const auto reason = why == 0 ? errno : why;
    ::kill(id, SIGKILL);
    ::waitpid(id, nullptr, 0);
    refuse(what.command.front(), reason);
  }
  for (const auto* end : {&out.read, &err.read})
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return {id, std::move(life), std::move(out.read), std::move(err.read)};
}

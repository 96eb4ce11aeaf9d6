#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace troupe {

/// Exit code and output of a program that has ended.
struct outcome {
  int code = -1; ///< Exit code, or 128 + the number of a signal.
  std::string out, err;
};

struct child_options {
  /// Working directory of the program. Empty: the test's directory.
  std::filesystem::path folder{};
  std::chrono::seconds timeout{100}; ///< Then the program is killed.
  /// Called whenever the program has written to standard error, with the
  /// process id and all of standard error so far. The function may send a
  /// signal.
  std::function<void(pid_t, const std::string&)> on_error_output{};
  rlim_t file_limit = RLIM_INFINITY; ///< Maximum file size in bytes.
  std::string out_file{}; ///< File for standard output. Empty: a pipe.
  /// Columns of a terminal for standard error. Zero: a pipe.
  unsigned short error_columns = 0;
};

namespace detail {

[[noreturn]] inline void exec_child(const std::vector<std::string>& command,
                                    const child_options& options, int out,
                                    int err) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (!options.out_file.empty())
    ::dup2(::open(options.out_file.c_str(), O_WRONLY), STDOUT_FILENO);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0)
    ::_exit(126);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = std::min(options.file_limit, limit.rlim_max);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::vector<char*> words;
  for (const auto& one : command)
    words.push_back(const_cast<char*>(one.c_str()));
  words.push_back(nullptr);
  ::execv(words[0], words.data());
  ::_exit(127);
}

/// Appends available data to `target`. @returns false at the end of the data.
inline bool read_available(int source, std::string& target) {
  std::array<char, 4096> buffer;
  const auto n = ::read(source, buffer.data(), buffer.size());
  if (n > 0)
    target.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0;
}

} // namespace detail

/// Opens a terminal with as many columns. The first descriptor reads what is
/// written to the second one.
inline void open_terminal(unsigned short columns, int (&ends)[2]) {
  ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends[0] < 0 || ::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0)
    throw std::runtime_error(std::strerror(errno));
  ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  if (ends[1] < 0 || ::ioctl(ends[1], TIOCSWINSZ, &size) != 0)
    throw std::runtime_error(std::strerror(errno));
}

/// Runs a program until it ends or the timeout has passed.
inline outcome run_child(const std::vector<std::string>& command,
                         const child_options& options = {}) {
  using clock = std::chrono::steady_clock;
  int out[2], err[2];
  if (options.error_columns > 0)
    open_terminal(options.error_columns, err);
  if (::pipe2(out, O_CLOEXEC) != 0
      || (options.error_columns == 0 && ::pipe2(err, O_CLOEXEC) != 0))
    throw std::runtime_error(std::strerror(errno));
  const auto child = ::fork();
  if (child < 0)
    throw std::runtime_error(std::strerror(errno));
  if (child == 0)
    detail::exec_child(command, options, out[1], err[1]);
  ::close(out[1]);
  ::close(err[1]);
  outcome seen;
  const auto deadline = clock::now() + options.timeout;
  std::array<pollfd, 2> open{pollfd{out[0], POLLIN, 0},
                             pollfd{err[0], POLLIN, 0}};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - clock::now());
    if (left.count() <= 0
        || ::poll(open.data(), open.size(), static_cast<int>(left.count()))
             <= 0) {
      ::kill(child, SIGKILL);
      seen.err += "\n[killed by the test at its deadline]";
      break;
    }
    if (open[0].revents != 0 && !detail::read_available(out[0], seen.out))
      open[0].fd = -1;
    if (open[1].revents != 0) {
      if (!detail::read_available(err[0], seen.err))
        open[1].fd = -1;
      else if (options.on_error_output)
        options.on_error_output(child, seen.err);
    }
  }
  ::close(out[0]);
  ::close(err[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  seen.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return seen;
}

} // namespace troupe

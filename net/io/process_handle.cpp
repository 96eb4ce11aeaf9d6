#include "troupe/net/io/process_handle.hpp"

#include <fstream>
#include <iterator>
#include <limits>
#include <poll.h>
#include <sstream>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace troupe::net {

namespace {

/// Reads the start time of a process. Zero: there is no such process.
std::uint64_t start_time_of(const std::string& process) {
  std::ifstream input{"/proc/" + process + "/stat"};
  const std::string text{std::istreambuf_iterator<char>{input}, {}};
  // The second field is the name of the program in parentheses, which may
  // contain spaces. The start time is the 22nd field.
  const auto end_of_name = text.rfind(')');
  if (end_of_name == text.npos)
    return 0;
  std::istringstream rest{text.substr(end_of_name + 1)};
  std::string skipped;
  for (int field = 3; field < 22; ++field)
    rest >> skipped;
  std::uint64_t out = 0;
  rest >> out;
  return rest ? out : 0;
}

/// Returns the boot id and the namespace of process numbers.
std::string namespace_of_numbers() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  char name[64];
  const auto size = ::readlink("/proc/self/ns/pid", name, sizeof name);
  if (boot.empty() || size <= 0)
    return {};
  return boot + ' ' + std::string(name, static_cast<std::size_t>(size));
}

} // namespace

process_identity own_process_identity() {
  return {namespace_of_numbers(), static_cast<std::uint64_t>(::getpid()),
          start_time_of("self")};
}

std::uint64_t start_time_of_process(std::uint64_t number) {
  return start_time_of(std::to_string(number));
}

std::optional<process_handle> process_handle::open(const process_identity& of) {
  constexpr std::uint64_t max_number = std::numeric_limits<pid_t>::max();
  if (of.host.empty() || of.number == 0 || of.number > max_number
      || of.start_time == 0 || of.host != namespace_of_numbers())
    return std::nullopt;
  descriptor pidfd{static_cast<int>(
    ::syscall(SYS_pidfd_open, static_cast<pid_t>(of.number), 0))};
  // The number may belong to another process by now.
  if (!pidfd || start_time_of(std::to_string(of.number)) != of.start_time)
    return std::nullopt;
  return process_handle{std::move(pidfd), of.number};
}

bool process_handle::has_ended() const {
  pollfd one{pidfd_.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & POLLIN) != 0;
}

} // namespace troupe::net

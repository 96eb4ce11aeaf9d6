#include "troupe/actors/faults/fault_notes.hpp"

#include "troupe/net/base/descriptor.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <unistd.h>

namespace troupe::injection {

fault_notes fault_notes::from_environment() {
  const auto* const file = std::getenv(variable);
  return fault_notes{file ? file : ""};
}

void fault_notes::note(std::size_t index,
                       std::uint32_t process) const noexcept {
  if (file_.empty())
    return;
  const net::descriptor file{
    ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  char line[48];
  const auto size =
    std::snprintf(line, sizeof line, "%zu %u\n", index, process);
  if (file.get() >= 0
      && ::write(file.get(), line, static_cast<std::size_t>(size)) < 0)
    return; // the file system is full: the fault is not counted
}

std::set<std::size_t> fault_notes::read() const {
  std::set<std::size_t> out;
  std::ifstream input{file_};
  std::size_t index = 0, process = 0;
  while (!file_.empty() && input >> index >> process)
    out.insert(index);
  return out;
}

} // namespace troupe::injection

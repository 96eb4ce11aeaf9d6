#include "troupe/net/io/exclusive_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace troupe::net {

namespace {

bool write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(to, text.data(), text.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

[[noreturn]] void fail(const std::filesystem::path& file, int why) {
  throw std::runtime_error("cannot write \"" + file.string()
                           + "\": " + std::strerror(why));
}

} // namespace

void write_new_file(const std::filesystem::path& file, std::string_view text,
                    file_access access) {
  const auto fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                         access == file_access::owner ? 0600 : 0644);
  if (fd < 0)
    fail(file, errno);
  const bool written = write_all(fd, text);
  const auto write_error = errno;
  if (::close(fd) == 0 && written)
    return;
  const auto close_error = errno;
  ::unlink(file.c_str());
  fail(file, written ? close_error : write_error);
}

} // namespace troupe::net

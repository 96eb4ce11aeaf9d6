#include "troupe/net/shm/memfd.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace troupe::net {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("shared memory: " + what + ": "
                           + std::strerror(errno));
}

/// Checks RLIMIT_FSIZE: growing a file beyond it would end the process
/// (SIGXFSZ).
bool may_be_so_large(std::size_t bytes) {
  rlimit most{};
  return ::getrlimit(RLIMIT_FSIZE, &most) != 0 || bytes <= most.rlim_cur;
}

} // namespace

descriptor make_memory_file(std::size_t bytes) {
  descriptor fd{::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd)
    fail("cannot create a memfd");
  if (!may_be_so_large(bytes)) {
    errno = EFBIG;
    fail("cannot allocate " + std::to_string(bytes) + " bytes");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    fail("cannot allocate " + std::to_string(bytes) + " bytes");
  return fd;
}

void seal_memory_file(int fd, int seals) {
  if (::fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals)
      != 0)
    fail("cannot be sealed");
}

std::size_t check_memory_file(int fd) {
  const auto refuse = [](const std::string& why) {
    throw std::runtime_error("shared memory: the peer's descriptor " + why);
  };
  struct statfs system {};
  struct stat file {};
  // The seals are checked first: afterwards the size cannot shrink.
  const auto seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    refuse("can shrink: it has no F_SEAL_SHRINK");
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
    refuse("is no memfd"); // pages of another file may vanish
  if (::fstat(fd, &file) != 0)
    refuse("cannot be examined (fstat failed)");
  return static_cast<std::size_t>(file.st_size);
}

shm_mapping::shm_mapping(int fd, std::size_t bytes, int protection)
  : bytes_{bytes} {
  auto* at =
    ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED)
    fail("cannot map " + std::to_string(bytes) + " bytes");
  begin_ = static_cast<std::byte*>(at);
}

shm_mapping::~shm_mapping() {
  if (begin_ != nullptr)
    ::munmap(begin_, bytes_);
}

} // namespace troupe::net

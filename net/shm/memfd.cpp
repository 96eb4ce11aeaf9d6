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

[[noreturn]] void throw_memory_error(const std::string& action) {
  throw std::runtime_error("shared memory: " + action + ": "
                           + std::strerror(errno));
}

/// True if RLIMIT_FSIZE allows a file of that size. The kernel kills a process
/// that grows a file beyond the limit (SIGXFSZ).
bool is_within_file_limit(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
}

} // namespace

descriptor create_memfd(std::size_t bytes) {
  descriptor fd{::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd)
    throw_memory_error("cannot create a memfd");
  if (!is_within_file_limit(bytes)) {
    errno = EFBIG;
    throw_memory_error("cannot allocate " + std::to_string(bytes) + " bytes");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw_memory_error("cannot allocate " + std::to_string(bytes) + " bytes");
  return fd;
}

void seal_memfd(int fd, int seals) {
  if (::fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals)
      != 0)
    throw_memory_error("cannot be sealed");
}

std::size_t validate_memfd(int fd) {
  const auto reject = [](const std::string& why) {
    throw std::runtime_error("shared memory: the peer's descriptor " + why);
  };
  struct statfs system {};
  struct stat file {};
  // The seals are checked before the size is read: a sealed file cannot shrink.
  const auto seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    reject("can shrink: it has no F_SEAL_SHRINK");
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
    reject("is no memfd"); // another file's pages may become unreadable
  if (::fstat(fd, &file) != 0)
    reject("cannot be examined (fstat failed)");
  return static_cast<std::size_t>(file.st_size);
}

namespace {

/// Address space that a mapping must leave to the threads of this process and
/// to their stacks.
constexpr std::size_t room_bytes = std::size_t{192} << 20;

/// False if the address space is limited (RLIMIT_AS) and too little is left.
bool is_room_left() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return true;
  auto* const room = ::mmap(nullptr, room_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return room != MAP_FAILED && ::munmap(room, room_bytes) == 0;
}

} // namespace

shm_mapping::shm_mapping(int fd, std::size_t bytes, int protection)
  : bytes_{bytes} {
  auto* address =
    ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (address != MAP_FAILED && !is_room_left()) {
    ::munmap(address, bytes);
    address = MAP_FAILED;
    errno = ENOMEM;
  }
  if (address == MAP_FAILED)
    throw_memory_error("cannot map " + std::to_string(bytes) + " bytes");
  begin_ = static_cast<std::byte*>(address);
}

shm_mapping::~shm_mapping() {
  if (begin_ != nullptr)
    ::munmap(begin_, bytes_);
}

} // namespace troupe::net

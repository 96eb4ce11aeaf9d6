#include "troupe/net/shm_segment.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#ifndef F_SEAL_FUTURE_WRITE // Linux 5.1
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace troupe::net {

namespace {

constexpr std::size_t slots_begin = 4096;
static_assert(sizeof(shm_header) <= slots_begin);

std::size_t bytes_of(std::uint32_t slots) {
  if (slots < least_slots || slots > most_slots)
    throw std::logic_error("a segment of " + std::to_string(slots) + " slots");
  return slots_begin + shm_queues * slots * sizeof(shm_slot);
}

std::size_t place_of(std::uint32_t slots, std::size_t queue,
                     std::uint64_t position) {
  return slots_begin + (queue * slots + position % slots) * sizeof(shm_slot);
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("shared memory: " + what + ": "
                           + std::strerror(errno));
}

descriptor make_file(std::size_t bytes) {
  descriptor fd{::memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd)
    fail("no file in memory");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    fail("no room for " + std::to_string(bytes) + " bytes");
  return fd;
}

/// In this order: a file that is sealed keeps its size.
int check_file(int fd, std::size_t bytes) {
  const auto refuse = [](const std::string& why) {
    throw std::runtime_error("shared memory: what the peer passed " + why);
  };
  struct statfs system {};
  struct stat file {};
  const auto seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    refuse("can be shortened: it has no F_SEAL_SHRINK");
  if (::fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
    refuse("is no file in memory"); // pages of others may not be there
  if (::fstat(fd, &file) != 0
      || static_cast<std::uint64_t>(file.st_size) != bytes)
    refuse("has " + std::to_string(file.st_size) + " bytes, not "
           + std::to_string(bytes));
  return fd;
}

} // namespace

shm_mapping::shm_mapping(int fd, std::size_t bytes, int protection)
  : bytes_{bytes} {
  auto* at = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    fail("cannot map " + std::to_string(bytes) + " bytes");
  begin_ = static_cast<std::byte*>(at);
}

shm_mapping::~shm_mapping() {
  if (begin_ != nullptr)
    ::munmap(begin_, bytes_);
}

shm_segment::shm_segment(std::uint32_t slots)
  : slots_{slots},
    fd_{make_file(bytes_of(slots))},
    pages_{fd_.get(), bytes_of(slots), PROT_READ | PROT_WRITE} {
  // what is mapped by now stays writable
  if (::fcntl(fd_.get(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
      != 0)
    fail("cannot be sealed");
  new (pages_.begin()) shm_header{};
}

shm_header& shm_segment::header() const {
  return *std::launder(reinterpret_cast<shm_header*>(pages_.begin()));
}

shm_slot& shm_segment::slot(std::size_t queue, std::uint64_t position) const {
  return *reinterpret_cast<shm_slot*>(pages_.begin()
                                      + place_of(slots_, queue, position));
}

shm_view::shm_view(int fd, std::uint32_t slots)
  : slots_{slots},
    pages_{check_file(fd, bytes_of(slots)), bytes_of(slots), PROT_READ} {}

const shm_header& shm_view::header() const {
  return *reinterpret_cast<const shm_header*>(pages_.begin());
}

const shm_slot& shm_view::slot(std::size_t queue,
                               std::uint64_t position) const {
  return *reinterpret_cast<const shm_slot*>(
    pages_.begin() + place_of(slots_, queue, position));
}

} // namespace troupe::net

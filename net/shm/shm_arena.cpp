#include "troupe/net/shm/shm_arena.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::net {

namespace {

constexpr std::size_t page = 4096;

/// The size of the machine's memory, and at most a quarter of the address space
/// that this process may have.
std::size_t addresses_to_take() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), each = ::sysconf(_SC_PAGESIZE);
  auto bytes = static_cast<std::size_t>(std::max(pages, 1L))
               * static_cast<std::size_t>(std::max(each, 4096L));
  rlimit most{};
  if (::getrlimit(RLIMIT_AS, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::size_t>(bytes, most.rlim_cur / 4);
  return std::min(bytes / page * page, shm_arena::most_bytes);
}

/// Opens the file a second time, so that it cannot be mapped for writing.
descriptor read_only(int fd) {
  const auto path = "/proc/self/fd/" + std::to_string(fd);
  descriptor x{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!x)
    throw std::runtime_error("shared memory: cannot open " + path
                             + " for reading: " + std::strerror(errno));
  return x;
}

std::size_t checked(int fd) {
  const auto bytes = check_memory_file(fd);
  if (bytes == 0 || bytes > shm_arena::most_bytes)
    throw std::runtime_error("shared memory: an arena of "
                             + std::to_string(bytes) + " bytes");
  return bytes;
}

} // namespace

shm_arena::shm_arena() : shm_arena{addresses_to_take()} {}

shm_arena::shm_arena(std::size_t bytes)
  : fd_{make_memory_file(bytes)},
    read_only_{read_only(fd_.get())},
    pages_{fd_.get(), bytes, PROT_READ | PROT_WRITE} {
  // No F_SEAL_FUTURE_WRITE: it also forbids punching holes.
  seal_memory_file(fd_.get());
  // Not mapped in a child: it would write into the tensors of its parent.
  ::madvise(pages_.begin(), bytes, MADV_DONTFORK);
}

std::uint64_t shm_arena::place_of(std::span<const std::byte> bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(pages_.begin());
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
  return at > begin && at - begin < pages_.bytes()
             && bytes.size() <= pages_.bytes() - (at - begin)
           ? at - begin
           : 0;
}

shm_arena_view::shm_arena_view(int fd) : pages_{fd, checked(fd), PROT_READ} {}

std::span<const std::byte> shm_arena_view::at(std::uint64_t place,
                                              std::size_t bytes) const {
  if (place >= pages_.bytes() || bytes > pages_.bytes() - place)
    return {};
  return {pages_.begin() + place, bytes};
}

} // namespace troupe::net

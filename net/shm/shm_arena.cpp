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

/// Returns the bytes of address space to reserve: the size of the machine's
/// memory, at most an eighth of the address space of this process. The process
/// maps the arenas of other processes too.
std::size_t addresses_to_reserve() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES),
             page_bytes = ::sysconf(_SC_PAGESIZE);
  auto bytes = static_cast<std::size_t>(std::max(pages, 1L))
               * static_cast<std::size_t>(std::max(page_bytes, 4096L));
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::size_t>(bytes, limit.rlim_cur / 8);
  return std::min(bytes / page * page, shm_arena::max_bytes);
}

/// Opens the file a second time for reading only. Through the result it cannot
/// be mapped for writing.
descriptor open_read_only(int fd) {
  const auto path = "/proc/self/fd/" + std::to_string(fd);
  descriptor x{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!x)
    throw std::runtime_error("shared memory: cannot open " + path
                             + " for reading: " + std::strerror(errno));
  return x;
}

std::size_t validated_size(int fd) {
  const auto bytes = validate_memfd(fd);
  if (bytes == 0 || bytes > shm_arena::max_bytes)
    throw std::runtime_error("shared memory: an arena of "
                             + std::to_string(bytes) + " bytes");
  return bytes;
}

} // namespace

shm_arena::shm_arena() : shm_arena{addresses_to_reserve()} {}

shm_arena::shm_arena(std::size_t bytes)
  : fd_{create_memfd(bytes)},
    read_only_{open_read_only(fd_.get())},
    pages_{fd_.get(), bytes, PROT_READ | PROT_WRITE} {
  // F_SEAL_FUTURE_WRITE is not set, because it would forbid returning pages to
  // the system (hole punching).
  seal_memfd(fd_.get());
  // A forked child does not inherit the mapping, so that it cannot write into
  // the tensors of its parent.
  ::madvise(pages_.begin(), bytes, MADV_DONTFORK);
}

std::uint64_t shm_arena::offset_of(std::span<const std::byte> bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(pages_.begin());
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  return address > begin && address - begin < pages_.bytes()
             && bytes.size() <= pages_.bytes() - (address - begin)
           ? address - begin
           : 0;
}

shm_arena_view::shm_arena_view(int fd)
  : pages_{fd, validated_size(fd), PROT_READ} {}

std::span<const std::byte> shm_arena_view::span_at(std::uint64_t offset,
                                                   std::size_t bytes) const {
  if (offset >= pages_.bytes() || bytes > pages_.bytes() - offset)
    return {};
  return {pages_.begin() + offset, bytes};
}

} // namespace troupe::net

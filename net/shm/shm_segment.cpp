#include "troupe/net/shm/shm_segment.hpp"

#include <fcntl.h>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/mman.h>

#ifndef F_SEAL_FUTURE_WRITE // Linux 5.1
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace troupe::net {

namespace {

constexpr std::size_t slots_begin = 4096;
static_assert(sizeof(shm_header) <= slots_begin);

std::size_t bytes_of(std::uint32_t lanes, std::uint32_t slots) {
  if (lanes < 1 || lanes > max_lanes)
    throw std::logic_error("a segment of " + std::to_string(lanes) + " lanes");
  if (slots < min_slots || slots > max_slots)
    throw std::logic_error("a segment of " + std::to_string(slots) + " slots");
  return slots_begin + std::size_t{lanes} * slots * sizeof(shm_slot);
}

std::size_t slot_offset(std::uint32_t slots, std::size_t queue,
                        std::uint64_t position) {
  return slots_begin + (queue * slots + position % slots) * sizeof(shm_slot);
}

/// Returns `fd` after it has validated the memfd.
/// @errors throws std::runtime_error if it is not a memfd of that size that
///         cannot shrink.
int check_size(int fd, std::size_t bytes) {
  const auto size = validate_memfd(fd);
  if (size != bytes)
    throw std::runtime_error("shared memory: the peer's memfd has "
                             + std::to_string(size) + " bytes, not "
                             + std::to_string(bytes));
  return fd;
}

} // namespace

shm_segment::shm_segment(std::uint32_t lanes, std::uint32_t slots)
  : lanes_{lanes},
    slots_{slots},
    fd_{create_memfd(bytes_of(lanes, slots))},
    pages_{fd_.get(), bytes_of(lanes, slots), PROT_READ | PROT_WRITE} {
  // `pages_`, which is mapped already, stays writable
  seal_memfd(fd_.get(), F_SEAL_FUTURE_WRITE);
  new (pages_.begin()) shm_header{};
}

shm_header& shm_segment::header() const {
  return *std::launder(reinterpret_cast<shm_header*>(pages_.begin()));
}

shm_slot& shm_segment::slot(std::size_t queue, std::uint64_t position) const {
  return *reinterpret_cast<shm_slot*>(pages_.begin()
                                      + slot_offset(slots_, queue, position));
}

shm_view::shm_view(int fd, std::uint32_t lanes, std::uint32_t slots)
  : lanes_{lanes},
    slots_{slots},
    pages_{check_size(fd, bytes_of(lanes, slots)), bytes_of(lanes, slots),
           PROT_READ} {}

const shm_header& shm_view::header() const {
  return *reinterpret_cast<const shm_header*>(pages_.begin());
}

const shm_slot& shm_view::slot(std::size_t queue,
                               std::uint64_t position) const {
  return *reinterpret_cast<const shm_slot*>(
    pages_.begin() + slot_offset(slots_, queue, position));
}

} // namespace troupe::net

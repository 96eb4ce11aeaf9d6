#include "troupe/actors/collectives/shared_arena.hpp"

#include "troupe/tensors/memory.hpp"

#include <stdexcept>

namespace troupe {

namespace {

std::shared_ptr<const net::shm_arena> make() {
  try {
    auto arena = std::make_shared<const net::shm_arena>();
    memory::use_region(arena->pages());
    return arena;
  } catch (const std::runtime_error&) {
    return nullptr; // packets are copied then
  }
}

} // namespace

std::shared_ptr<const net::shm_arena> shared_arena() {
  // Never destroyed, because tensors in static variables may outlive it.
  static const auto* it = new std::shared_ptr{make()};
  return *it;
}

} // namespace troupe

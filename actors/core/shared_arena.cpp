#include "troupe/actors/core/shared_arena.hpp"

#include "troupe/tensors/base/memory.hpp"

#include <stdexcept>

namespace troupe {

namespace {

std::shared_ptr<const net::shm_arena> make_arena() {
  try {
    auto arena = std::make_shared<const net::shm_arena>();
    memory::use_shared_region(arena->pages());
    return arena;
  } catch (const std::runtime_error&) {
    return nullptr; // without an arena, packets are copied
  }
}

} // namespace

std::shared_ptr<const net::shm_arena> shared_arena() {
  // The arena is never destroyed: tensors in static variables may use it until
  // the process ends.
  static const auto* arena = new std::shared_ptr{make_arena()};
  return *arena;
}

} // namespace troupe

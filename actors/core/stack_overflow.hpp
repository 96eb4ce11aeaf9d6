#pragma once

#include <cstddef>

namespace troupe {

/// The address range of a fiber's stack. Below `base` there is a guard area
/// that no code may access.
struct stack_range {
  const void* base = nullptr; ///< Lowest usable address.
  std::size_t size = 0;       ///< Usable bytes.
};

/// Size of the guard area below each stack, in bytes of address space. A call
/// with a larger frame can skip the guard area.
inline constexpr std::size_t stack_guard_bytes = std::size_t{8} << 20;

/// Sets the stack on which the calling thread begins to run a fiber. Null: the
/// thread runs no fiber. If the stack overflows, a sentence on standard error
/// says so before SIGSEGV ends the program.
///
/// The first call in a program installs a handler for SIGSEGV, unless the
/// program has a handler of its own. The first call of each thread gives the
/// thread an alternate signal stack, unless it has one. With a sanitizer, this
/// function has no effect, because the sanitizer reports overflows.
/// @param stack must exist until the next call of this thread.
/// @returns the stack that the thread had before.
const stack_range* exchange_running_stack(const stack_range* stack);

} // namespace troupe

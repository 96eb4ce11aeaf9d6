#pragma once

#include <cstdint>
#include <memory>

namespace troupe {

class tape;
struct kernel_cache; // what a device's libraries prepared for shapes seen

/// Keys of the random numbers that running code draws: counters, not a state,
/// so that a step redone draws the same again.
struct random_key {
  std::uint64_t seed = 0;
  std::uint32_t replica = 0; ///< Logical replica.
  std::uint64_t step = 0;    ///< Global, from 0.
  std::uint32_t op = 0;      ///< Counts the random ops of this step.
};

/// What follows the running code rather than its thread. A replica has one of
/// its own; every other thread has a default one. Whoever switches between
/// pieces of code on one thread (a fiber) exchanges the current context too.
struct context {
  context();
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  tape* recording = nullptr; ///< The innermost tape, if any.
  std::uint32_t replica =
    0; ///< Whose copy of a variable is read (local index).
  random_key random;
  const void* place = nullptr; ///< Where in a job it runs: for training/.
  std::unique_ptr<kernel_cache> kernels;
};

/// The context of the running code. Do not keep the reference over a wait.
context& current_context() noexcept;

/// Installs another context (null: the thread's own) and returns what was
/// installed before.
context* exchange_context(context* next) noexcept;

/// Installs a context for a block.
class context_scope {
public:
  explicit context_scope(context& in) : before_{exchange_context(&in)} {}
  ~context_scope() { exchange_context(before_); }
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;

private:
  context* before_;
};

/// Sets how many threads the calling thread's ops use; a thread's setting is
/// its own. @pre `count >= 1`.
void use_threads(int count);

} // namespace troupe

#pragma once

#include <cstdint>

namespace troupe {

/// Flushes denormal numbers to zero on the calling thread during the lifetime
/// of this object. An operation reads a denormal operand as zero, and returns
/// zero for a denormal result. The destructor restores the mode of the thread.
/// Such objects can be nested. On processors other than x86-64 and arm64 they
/// have no effect.
///
/// A code path must not get other bits if another thread runs it. So the step
/// function of a replica begins with such an object, and so does each function
/// that computes elements outside of a step. Copies of elements keep denormal
/// numbers.
/// @cost reads a register; also writes it if the mode changes.
class flush_denormals {
public:
  flush_denormals() noexcept;
  ~flush_denormals();
  flush_denormals(const flush_denormals&) = delete;
  flush_denormals& operator=(const flush_denormals&) = delete;

  /// Extends the effect to the other threads of the ops of the calling thread
  /// (op_threads.hpp). Their mode is restored with that of the calling thread.
  /// No effect if the calling thread does not flush denormals, or if ops use a
  /// single thread.
  static void include_op_threads();

private:
  /// The bits of the thread's control register that the destructor restores.
  std::uint64_t previous_;
};

} // namespace troupe

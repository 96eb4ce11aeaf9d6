#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace troupe {

struct context;

/// A stackful coroutine: it runs ordinary code that can wait without blocking
/// its thread. To wait, the code parks the fiber. When the owner resumes the
/// fiber, the code continues at the same place. The fiber saves and restores
/// the exceptions that the code is handling, and the current context
/// (context.hpp) with its tape. Code on a fiber flushes denormals
/// (flush_denormals.hpp), and the resumer keeps its own mode.
///
/// Only one thread at a time may resume a fiber, but each resume may be on
/// another thread. Code on a fiber must therefore not hold a lock while it
/// parks, nor keep the address of a `thread_local` object.
class fiber {
public:
  /// Default stack size, in bytes of address space. Only touched pages use
  /// memory. If a stack overflows, the program prints a sentence and ends
  /// (stack_overflow.hpp).
  static constexpr std::size_t default_stack = std::size_t{1} << 20;

  /// Makes a fiber without a body. The fiber is `done()`.
  /// @param body_context context that is current for code on the fiber. It must
  ///                     outlive the fiber. Null: the fiber has its own
  ///                     context.
  /// @param stack_bytes  size of the stack in bytes.
  explicit fiber(context* body_context = nullptr,
                 std::size_t stack_bytes = default_stack);

  /// Makes a fiber with a body. The first `resume` begins the body.
  explicit fiber(std::function<void()> body, context* body_context = nullptr,
                 std::size_t stack_bytes = default_stack);

  /// Aborts the body if it is not done.
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Sets the next body of a fiber that is done. The next `resume` begins the
  /// body, on the same stack.
  /// @errors throws std::logic_error if the fiber is not done or `body` is
  ///         empty.
  /// @cost allocates nothing if std::function stores `body` inline.
  void start(std::function<void()> body);

  /// Runs the body until it parks or ends. If an exception escapes from the
  /// body, `error` returns it.
  /// @errors throws std::logic_error if the fiber is done or is running.
  void resume();

  /// Aborts the body: its current wait and every later wait throw `superseded`.
  /// Returns when the body has ended. A body that has not begun never begins.
  /// No effect if the fiber is done.
  /// @errors throws std::logic_error if code on the fiber calls it.
  /// @pre the body does not catch `superseded` and wait again in an endless
  ///      loop.
  void abort();

  bool done() const;

  /// Returns the exception that escaped from the last body. Null: none escaped
  /// except `superseded`.
  std::exception_ptr error() const;

  /// Parks the calling fiber until its owner resumes it.
  /// @errors throws `superseded` (step.hpp) if the fiber is aborted, and
  ///         std::logic_error if the caller does not run on a fiber.
  static void park();

  /// Returns true if the caller runs on a fiber.
  static bool inside();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

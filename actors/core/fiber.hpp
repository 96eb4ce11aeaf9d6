#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace troupe {

struct context;

/// A stackful coroutine: ordinary code that can wait without blocking its
/// thread. It parks, and continues at the same place when its owner resumes it.
/// The exceptions that the code handles and the current context (with its tape)
/// are saved and restored with it.
///
/// One thread at a time drives a fiber, and each resume may be on another
/// thread. Code on a fiber must therefore not hold a lock over a wait, nor keep
/// the address of anything `thread_local`.
class fiber {
public:
  /// Bytes of address space; only touched pages take memory. A guard page
  /// terminates the program when a stack overflows.
  static constexpr std::size_t default_stack = std::size_t{1} << 20;

  /// Makes a fiber without a body; it is `done()`.
  /// @param body_context context that is current for code on the fiber. It must
  ///                     outlive the fiber. Null: the fiber has its own
  ///                     context.
  /// @param stack_bytes  size of the stack.
  explicit fiber(context* body_context = nullptr,
                 std::size_t stack_bytes = default_stack);

  /// Makes a fiber and starts `body` on it; the first `resume` begins it.
  explicit fiber(std::function<void()> body, context* body_context = nullptr,
                 std::size_t stack_bytes = default_stack);

  /// Aborts a body that is not done.
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Sets the next body of a finished fiber, which runs on the same stack. The
  /// first `resume` begins it.
  /// @errors throws std::logic_error if the fiber is not done or `body` is
  ///         empty.
  /// @cost no allocation for a body that std::function stores inline.
  void start(std::function<void()> body);

  /// Runs the body until it parks or ends.
  /// @errors throws std::logic_error if the fiber is done or is the caller. An
  ///         exception of the body is not thrown here but kept, see `error`.
  void resume();

  /// Ends the body: its current wait and every later one throw `superseded`
  /// until it returns. A body that has not begun never begins. No effect if the
  /// fiber is done.
  /// @errors throws std::logic_error if the fiber is the caller.
  /// @pre the body does not catch `superseded` and wait again forever.
  void abort();

  bool done() const;

  /// The exception that escaped from the last body. Null: none, or it was
  /// `superseded`.
  std::exception_ptr error() const;

  /// Waits until the owner resumes the calling fiber.
  /// @errors throws `superseded` (step.hpp) if the fiber is aborted, and
  ///         std::logic_error if the caller is not on a fiber.
  static void park();

  /// True if the caller runs on a fiber.
  static bool inside();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

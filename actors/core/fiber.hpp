#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace troupe {

struct context;

/// Ordinary code that can wait in the middle without holding its thread: it
/// parks, and goes on where it was when its owner resumes it. What belongs to
/// the running code moves with it: the exceptions it is handling and the
/// current context (with its tape).
///
/// One thread at a time drives a fiber; from one resume to the next that may be
/// another thread. So code on a fiber must not hold a lock over a wait, nor
/// keep the address of anything `thread_local`.
class fiber {
public:
  /// Of address space; only pages that were touched take memory. A guard page
  /// ends the program where a stack overflows.
  static constexpr std::size_t default_stack = std::size_t{1} << 20;

  /// Without work yet: `done()`.
  /// @param in what is current for code on the fiber, and outlives it; null: a
  ///           context of its own.
  explicit fiber(context* in = nullptr, std::size_t stack = default_stack);

  explicit fiber(std::function<void()> body, context* in = nullptr,
                 std::size_t stack = default_stack);

  /// Aborts what is not done.
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Gives a finished fiber its next work, on the same stack; the first
  /// `resume` begins it.
  /// @errors throws std::logic_error if it is not done.
  /// @cost none that allocates, for a body that std::function holds in itself.
  void start(std::function<void()> body);

  /// Runs the body until it parks or ends.
  /// @errors throws std::logic_error if it is done, or is what calls. What the
  ///         body throws is kept, see `error`.
  void resume();

  /// Resumes the body with `superseded` thrown out of the wait that it is in,
  /// and out of every wait after that, until it has ended; a body that has not
  /// begun never will. Void if it is done.
  /// @errors throws std::logic_error if the fiber is what calls.
  /// @pre the body does not try again for ever what threw.
  void abort();

  bool done() const;

  /// What escaped from the last body, unless it was `superseded`.
  std::exception_ptr error() const;

  /// Waits until the fiber that calls this is resumed.
  /// @errors throws `superseded` (crew.hpp) if it is aborted, std::logic_error
  ///         off a fiber.
  static void park();

  /// Whether the caller is on a fiber.
  static bool inside();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe

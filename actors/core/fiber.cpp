#include "troupe/actors/core/fiber.hpp"

#include "troupe/actors/core/stack_overflow.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <boost/context/stack_traits.hpp>
#include <cstring>
#include <cxxabi.h>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define TROUPE_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TROUPE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_ASAN 1
#elif __has_feature(thread_sanitizer)
#define TROUPE_TSAN 1
#endif
#endif

#ifdef TROUPE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TROUPE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe {

namespace {

namespace ctx = boost::context;

/// Allocates a stack above a guard area. Stores the stack's range in `range`,
/// because the sanitizers and the report of an overflow need it.
struct guarded_stack_allocator {
  std::size_t bytes;
  stack_range* range;

  ctx::stack_context allocate() {
    const auto page = ctx::stack_traits::page_size();
    range->size = (bytes + page - 1) / page * page;
    ctx::stack_context stack;
    stack.size = stack_guard_bytes + range->size;
    auto* memory = ::mmap(nullptr, stack.size, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw std::bad_alloc{};
    auto* base = static_cast<char*>(memory) + stack_guard_bytes;
    if (::mprotect(base, range->size, PROT_READ | PROT_WRITE) != 0) {
      ::munmap(memory, stack.size);
      throw std::bad_alloc{};
    }
    range->base = base;
    stack.sp = base + range->size;
    return stack;
  }

  void deallocate(ctx::stack_context& stack) noexcept {
#ifdef TROUPE_ASAN
    // Functions that never returned leave poisoned memory behind. Clear it,
    // because the addresses will be used again.
    __asan_unpoison_memory_region(range->base, range->size);
#endif
    ::munmap(static_cast<char*>(stack.sp) - stack.size, stack.size);
  }
};

/// Exceptions that a thread is throwing or handling. The C++ runtime keeps them
/// in two words per thread. @source Itanium C++ ABI, 2.2.2.
struct exception_globals {
  void* words[2] = {};

  /// Replaces the exceptions of this thread by `next`. @returns the exceptions
  /// that the thread had before.
  static exception_globals exchange(const exception_globals& next) {
    auto* globals = static_cast<void*>(abi::__cxa_get_globals());
    exception_globals before;
    std::memcpy(&before, globals, sizeof before);
    std::memcpy(globals, &next, sizeof next);
    return before;
  }
};

} // namespace

// The resumer is the code that calls `resume` or `abort`.
struct fiber::impl {
  impl(context* body_context, std::size_t stack);
  ~impl();

  void run_until_parked(); // called on the resumer's stack
  void switch_stack();     // switches to the fiber's stack and back
  ctx::fiber main(ctx::fiber back);
  void run_body();
  void finish_switch();
  void return_to_resumer(); // called on the fiber's stack

  std::unique_ptr<context> own_context;
  context* initial_context; // current when a body begins
  context* saved_context;   // current when the parked body continues
  exception_globals in_flight;
  std::function<void()> body;
  std::exception_ptr error;
  bool done = true;
  bool begun = false;
  bool running = false;
  bool aborting = false;
  bool ending = false;

  ctx::fiber back; // continues the resumer; set while the fiber runs
  stack_range stack;
#ifdef TROUPE_ASAN
  void* fake_stack = nullptr;
  stack_range resumer;
#endif
#ifdef TROUPE_TSAN
  void* tsan_fiber = __tsan_create_fiber(0);
#endif
  ctx::fiber code; // continues the body; set while the fiber is parked

  /// The fiber that runs on this thread. Null: none. Code on a fiber must not
  /// read this variable after a switch. The fiber may then run on another
  /// thread, but the compiler may still use the old thread's variable.
  static thread_local impl* on_thread;
};

thread_local fiber::impl* fiber::impl::on_thread = nullptr;

fiber::impl::impl(context* body_context, std::size_t bytes)
  : own_context{body_context ? nullptr : std::make_unique<context>()},
    initial_context{body_context ? body_context : own_context.get()},
    saved_context{initial_context} {
#ifdef TROUPE_TSAN
  auto* resumer = __tsan_get_current_fiber();
  // tell the sanitizer: the constructor of ctx::fiber switches to the new stack
  // and back
  __tsan_switch_to_fiber(tsan_fiber, 0);
#endif
  // On x86-64, a fiber begins with the mode of the thread that makes it.
  const flush_denormals flushing;
  code = ctx::fiber{std::allocator_arg, guarded_stack_allocator{bytes, &stack},
                    [this](ctx::fiber&& x) { return main(std::move(x)); }};
#ifdef TROUPE_TSAN
  __tsan_switch_to_fiber(resumer, 0);
#endif
}

fiber::impl::~impl() {
  ending = true;
  run_until_parked(); // makes `main` return, which releases the stack
#ifdef TROUPE_TSAN
  __tsan_destroy_fiber(tsan_fiber);
#endif
}

void fiber::impl::run_until_parked() {
  auto* outer = std::exchange(on_thread, this);
  const auto* outer_stack = exchange_running_stack(&stack);
  auto* before = exchange_context(saved_context);
  const auto handled = exception_globals::exchange(in_flight);
  // On x86-64, a switch of the stack also switches the mode. On arm64 it does
  // not, so this thread has the mode of the fiber while the fiber runs.
  const flush_denormals flushing;
  running = true;
  switch_stack();
  running = false;
  in_flight = exception_globals::exchange(handled);
  saved_context = exchange_context(before);
  exchange_running_stack(outer_stack);
  on_thread = outer;
}

void fiber::impl::switch_stack() {
#ifdef TROUPE_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack.base, stack.size);
#endif
#ifdef TROUPE_TSAN
  auto* resumer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber, 0);
#endif
  code = std::move(code).resume();
#ifdef TROUPE_TSAN
  __tsan_switch_to_fiber(resumer, 0);
#endif
#ifdef TROUPE_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

ctx::fiber fiber::impl::main(ctx::fiber x) {
  back = std::move(x);
  finish_switch();
  while (!ending) {
    run_body();
    done = true;
    return_to_resumer();
  }
#ifdef TROUPE_ASAN
  __sanitizer_start_switch_fiber(nullptr, resumer.base, resumer.size);
#endif
  return std::move(back);
}

void fiber::impl::run_body() {
  const flush_denormals flushing; // even if the last body has ended this mode
  try {
    body();
  } catch (const superseded&) {
    // an aborted body is not an error
  } catch (...) {
    error = std::current_exception();
  }
  body = nullptr; // destroys the captures while the body's context is current
}

void fiber::impl::return_to_resumer() {
#ifdef TROUPE_ASAN
  __sanitizer_start_switch_fiber(&fake_stack, resumer.base, resumer.size);
#endif
  back = std::move(back).resume();
  finish_switch();
}

void fiber::impl::finish_switch() {
#ifdef TROUPE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, &resumer.base, &resumer.size);
#endif
}

fiber::fiber(context* body_context, std::size_t stack_bytes)
  : impl_{std::make_unique<impl>(body_context, stack_bytes)} {}

fiber::fiber(std::function<void()> body, context* body_context,
             std::size_t stack_bytes)
  : fiber{body_context, stack_bytes} {
  start(std::move(body));
}

fiber::~fiber() {
  if (impl_->running)
    std::terminate(); // the destructor would release the stack that it runs on
  abort();
}

void fiber::start(std::function<void()> body) {
  if (!done())
    throw std::logic_error("a fiber was started before its last body ended");
  if (!body)
    throw std::logic_error("a fiber was started with an empty function");
  impl_->body = std::move(body);
  impl_->error = nullptr;
  impl_->saved_context = impl_->initial_context;
  impl_->aborting = impl_->begun = impl_->done = false;
}

void fiber::resume() {
  if (impl_->done)
    throw std::logic_error("a fiber was resumed after its end");
  if (impl_->running)
    throw std::logic_error("a fiber was resumed while it runs");
  impl_->begun = true;
  impl_->run_until_parked();
}

void fiber::abort() {
  if (impl_->done)
    return;
  if (impl_->running)
    throw std::logic_error("a fiber was aborted by the code that runs on it");
  impl_->aborting = true;
  if (impl_->begun) {
    impl_->run_until_parked();
  } else {
    impl_->body = nullptr;
    impl_->done = true;
  }
}

bool fiber::done() const {
  return impl_->done;
}

std::exception_ptr fiber::error() const {
  return impl_->error;
}

void fiber::park() {
  auto* self = impl::on_thread;
  if (!self)
    throw std::logic_error("only code on a fiber can park");
  if (!self->aborting)
    self->return_to_resumer();
  if (self->aborting)
    throw superseded{};
}

bool fiber::inside() {
  return impl::on_thread != nullptr;
}

} // namespace troupe

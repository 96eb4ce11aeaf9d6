#include "troupe/actors/core/fiber.hpp"

#include "troupe/actors/core/step.hpp"
#include "troupe/tensors/context.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <cxxabi.h>
#include <stdexcept>
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

/// The usable address range of a stack.
struct extent {
  const void* base = nullptr;
  std::size_t size = 0;
};

/// Allocates stacks with a guard page and records their range, which the
/// sanitizers need.
struct stack_source {
  ctx::protected_fixedsize_stack stacks;
  extent* lies;

  ctx::stack_context allocate() {
    auto it = stacks.allocate();
    const auto guard = ctx::stack_traits::page_size();
    lies->size = it.size - guard;
    lies->base = static_cast<char*>(it.sp) - lies->size;
    return it;
  }

  void deallocate(ctx::stack_context& it) noexcept {
#ifdef TROUPE_ASAN
    // Frames that never returned leave poisoned memory behind, and the address
    // will be used again.
    __asan_unpoison_memory_region(static_cast<char*>(it.sp) - it.size, it.size);
#endif
    stacks.deallocate(it);
  }
};

/// State of the exceptions in flight, which the C++ runtime keeps per thread:
/// two words. @source Itanium C++ ABI, 2.2.2.
struct exceptions {
  void* words[2] = {};

  /// Replaces the state of this thread. @returns the previous state.
  static exceptions exchange(const exceptions& next) {
    auto* globals = static_cast<void*>(abi::__cxa_get_globals());
    exceptions before;
    std::memcpy(&before, globals, sizeof before);
    std::memcpy(globals, &next, sizeof next);
    return before;
  }
};

} // namespace

struct fiber::impl {
  impl(context* in, std::size_t stack);
  ~impl();

  void enter();     // runs on the resumer's stack
  void switch_to(); // switches the stack and notifies the sanitizers
  ctx::fiber main(ctx::fiber back);
  void run_body();
  void arrived();
  void leave(); // runs on the fiber's stack

  std::unique_ptr<context> own;
  context* home;    // current context when a body begins
  context* current; // current context of the body while the fiber is parked
  exceptions in_flight;
  std::function<void()> body;
  std::exception_ptr error;
  bool done = true;
  bool begun = false;
  bool running = false;
  bool aborting = false;
  bool ending = false;

  ctx::fiber back; // continuation of the resumer while the fiber runs
  extent stack;
#ifdef TROUPE_ASAN
  void* fake_stack = nullptr;
  extent resumer;
#endif
#ifdef TROUPE_TSAN
  void* told = __tsan_create_fiber(0);
#endif
  ctx::fiber code; // continuation of the body while the fiber is parked

  /// The fiber that runs on this thread. A function that switches the stack may
  /// read it only on the resumer's stack, because that stays on its thread.
  static thread_local impl* on_thread;
};

thread_local fiber::impl* fiber::impl::on_thread = nullptr;

fiber::impl::impl(context* in, std::size_t bytes)
  : own{in ? nullptr : std::make_unique<context>()},
    home{in ? in : own.get()},
    current{home} {
#ifdef TROUPE_TSAN
  auto* resumer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(told, 0); // the constructor enters the new stack once
#endif
  code = ctx::fiber{std::allocator_arg,
                    stack_source{ctx::protected_fixedsize_stack{bytes}, &stack},
                    [this](ctx::fiber&& x) { return main(std::move(x)); }};
#ifdef TROUPE_TSAN
  __tsan_switch_to_fiber(resumer, 0);
#endif
}

fiber::impl::~impl() {
  ending = true;
  enter(); // makes `main` return, which releases the stack
#ifdef TROUPE_TSAN
  __tsan_destroy_fiber(told);
#endif
}

void fiber::impl::enter() {
  auto* outer = std::exchange(on_thread, this);
  auto* before = exchange_context(current);
  const auto handled = exceptions::exchange(in_flight);
  running = true;
  switch_to();
  running = false;
  in_flight = exceptions::exchange(handled);
  current = exchange_context(before);
  on_thread = outer;
}

void fiber::impl::switch_to() {
#ifdef TROUPE_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack.base, stack.size);
#endif
#ifdef TROUPE_TSAN
  auto* resumer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(told, 0);
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
  arrived();
  while (!ending) {
    run_body();
    done = true;
    leave();
  }
#ifdef TROUPE_ASAN
  __sanitizer_start_switch_fiber(nullptr, resumer.base, resumer.size);
#endif
  return std::move(back);
}

void fiber::impl::run_body() {
  try {
    body();
  } catch (const superseded&) {
    // an aborted body is not an error
  } catch (...) {
    error = std::current_exception();
  }
  body = nullptr; // destroys the captures while their context is current
}

void fiber::impl::leave() {
#ifdef TROUPE_ASAN
  __sanitizer_start_switch_fiber(&fake_stack, resumer.base, resumer.size);
#endif
  back = std::move(back).resume();
  arrived();
}

void fiber::impl::arrived() {
#ifdef TROUPE_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, &resumer.base, &resumer.size);
#endif
}

fiber::fiber(context* in, std::size_t stack)
  : impl_{std::make_unique<impl>(in, stack)} {}

fiber::fiber(std::function<void()> body, context* in, std::size_t stack)
  : fiber{in, stack} {
  start(std::move(body));
}

fiber::~fiber() {
  if (impl_->running)
    std::terminate(); // it would release the stack that it runs on
  abort();
}

void fiber::start(std::function<void()> body) {
  if (!done())
    throw std::logic_error("a fiber was started before its last body ended");
  if (!body)
    throw std::logic_error("a fiber was started with an empty function");
  impl_->body = std::move(body);
  impl_->error = nullptr;
  impl_->current = impl_->home;
  impl_->aborting = impl_->begun = impl_->done = false;
}

void fiber::resume() {
  if (impl_->done)
    throw std::logic_error("a fiber was resumed after its end");
  if (impl_->running)
    throw std::logic_error("a fiber was resumed while it runs");
  impl_->begun = true;
  impl_->enter();
}

void fiber::abort() {
  if (impl_->done)
    return;
  if (impl_->running)
    throw std::logic_error("a fiber was aborted by the code that runs on it");
  impl_->aborting = true;
  if (impl_->begun) {
    impl_->enter();
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
    self->leave();
  if (self->aborting)
    throw superseded{};
}

bool fiber::inside() {
  return impl::on_thread != nullptr;
}

} // namespace troupe

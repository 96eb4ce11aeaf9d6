#include "troupe/actors/core/stack_overflow.hpp"

#include <csignal>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TROUPE_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TROUPE_SANITIZER 1
#endif
#endif

namespace troupe {

#ifdef TROUPE_SANITIZER

const stack_range* exchange_running_stack(const stack_range*) {
  return nullptr;
}

#else

namespace {

thread_local const stack_range* running_stack = nullptr;

void print(std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0)
      return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void print(std::size_t number) {
  char digits[20];
  auto* begin = std::end(digits);
  do
    *--begin = static_cast<char>('0' + number % 10);
  while ((number /= 10) > 0);
  print({begin, static_cast<std::size_t>(std::end(digits) - begin)});
}

/// Runs on the alternate signal stack. It calls only functions that are safe in
/// a signal handler.
void on_segmentation_fault(int signal, siginfo_t* info, void*) {
  const auto* stack = running_stack;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (stack) {
    const auto base = reinterpret_cast<std::uintptr_t>(stack->base);
    if (address < base && base - address <= stack_guard_bytes) {
      print("troupe: a step or a simulated process overflowed its stack of ");
      print(stack->size);
      print(" bytes; put large arrays on the heap, in a std::vector or a "
            "tensor\n");
    }
  }
  // After the return, the faulting instruction ends the program, so that a core
  // file shows the place of the overflow.
  ::signal(signal, SIG_DFL);
  if (info->si_code <= 0) // The signal came from a process.
    ::raise(signal);
}

void install_handler() {
  struct sigaction before;
  if (::sigaction(SIGSEGV, nullptr, &before) != 0
      || (before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL)
    return;
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, nullptr);
}

/// Gives the thread an alternate signal stack during the object's lifetime,
/// unless the thread has one.
class signal_stack {
public:
  signal_stack() {
    stack_t current;
    if (::sigaltstack(nullptr, &current) != 0
        || !(current.ss_flags & SS_DISABLE))
      return;
    auto* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return;
    stack_t mine{};
    mine.ss_sp = memory;
    mine.ss_size = bytes;
    if (::sigaltstack(&mine, nullptr) == 0)
      memory_ = memory;
    else
      ::munmap(memory, bytes);
  }
  ~signal_stack() {
    if (!memory_)
      return;
    stack_t current;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (::sigaltstack(nullptr, &current) == 0 && current.ss_sp == memory_
        && ::sigaltstack(&none, nullptr) == 0)
      ::munmap(memory_, bytes);
  }
  signal_stack(const signal_stack&) = delete;
  signal_stack& operator=(const signal_stack&) = delete;

private:
  // The state of the widest vector registers needs about 11 KiB.
  static constexpr std::size_t bytes = std::size_t{64} << 10;

  void* memory_ = nullptr;
};

} // namespace

const stack_range* exchange_running_stack(const stack_range* stack) {
  static const bool is_installed = (install_handler(), true);
  thread_local const signal_stack own_signal_stack;
  static_cast<void>(is_installed);
  static_cast<void>(own_signal_stack);
  return std::exchange(running_stack, stack);
}

#endif

} // namespace troupe

#include "troupe/apps/troupe/base/interrupt.hpp"

#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/signal_receiver.hpp"

#include <array>
#include <csignal>
#include <string_view>
#include <unistd.h>

namespace {

std::atomic<bool> stop_requested{false}, leave_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// Writes `troupe:` and a sentence, then exits. Calls only functions that are
/// safe in a signal handler.
template <std::size_t N>
[[noreturn]] void exit_with_message(const char (&sentence)[N]) {
  constexpr std::string_view tool = "troupe: ";
  std::array<char, tool.size() + N> text{};
  auto* position = text.data();
  for (const char c : tool)
    *position++ = c;
  for (std::size_t i = 0; i + 1 < N; ++i)
    *position++ = sentence[i];
  *position = '\n';
  [[maybe_unused]] const auto n =
    ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(unsaved);
}

void on_interrupt_before_training(int) {
  exit_with_message(nothing_to_save);
}

void on_second_interrupt(int) {
  exit_with_message(second_interrupt);
}

/// Gives signal handlers on this thread their own stack. A signal may arrive
/// inside a generated kernel of oneDNN. Such a kernel keeps more data below the
/// stack pointer than a handler leaves intact.
void set_signal_stack() {
  static std::array<char, 64 * 1024> stack;
  stack_t settings{};
  settings.ss_sp = stack.data();
  settings.ss_size = stack.size();
  ::sigaltstack(&settings, nullptr);
}

void install_handler(int signal_number, void (*handler)(int)) {
  struct sigaction settings {};
  settings.sa_handler = handler;
  settings.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(signal_number, &settings, nullptr);
}

void on_first_interrupt(int signal_number) {
  stop_requested = true;
  if (signal_number != SIGHUP)
    install_handler(signal_number, on_second_interrupt);
}

void on_leave(int) {
  leave_requested = true;
}

void install_handlers(void (*handler)(int)) {
  set_signal_stack();
  for (const auto signal_number : {SIGHUP, SIGINT, SIGTERM})
    if (signal_number != SIGHUP || !ignores_hangup())
      install_handler(signal_number, handler);
}

} // namespace

void end_on_interrupts() {
  install_handlers(on_interrupt_before_training);
}

void die_of_interrupts() {
  install_handlers(SIG_DFL);
}

interrupt_flags watch_for_interrupts(bool sigterm_leaves) {
  install_handlers(on_first_interrupt);
  if (sigterm_leaves)
    install_handler(SIGTERM, on_leave);
  return {&stop_requested, &leave_requested};
}

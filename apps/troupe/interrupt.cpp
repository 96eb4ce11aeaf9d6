#include "interrupt.hpp"

#include "command.hpp"

#include <array>
#include <csignal>
#include <string_view>
#include <unistd.h>

namespace {

std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// Writes `troupe:` and a sentence, then exits. Calls only functions that are
/// safe in a signal handler.
template <std::size_t N>
[[noreturn]] void end_saying(const char (&sentence)[N]) {
  constexpr std::string_view tool = "troupe: ";
  std::array<char, tool.size() + N> text{};
  auto* at = text.data();
  for (const char c : tool)
    *at++ = c;
  for (std::size_t i = 0; i + 1 < N; ++i)
    *at++ = sentence[i];
  *at = '\n';
  [[maybe_unused]] const auto n =
    ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(unsaved);
}

void on_interrupt_before_training(int) {
  end_saying(nothing_to_save);
}

void on_second_interrupt(int) {
  end_saying(second_interrupt);
}

/// Gives handlers on this thread their own stack. A signal may arrive inside a
/// generated kernel of oneDNN, which keeps more data below the stack pointer
/// than a handler preserves.
void give_handlers_their_own_stack() {
  static std::array<char, 64 * 1024> room;
  stack_t x{};
  x.ss_sp = room.data();
  x.ss_size = room.size();
  ::sigaltstack(&x, nullptr);
}

void handle(int number, void (*by)(int)) {
  struct sigaction how {};
  how.sa_handler = by;
  how.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(number, &how, nullptr);
}

void on_first_interrupt(int number) {
  asked = true;
  handle(number, on_second_interrupt);
}

void handle_interrupts(void (*by)(int)) {
  give_handlers_their_own_stack();
  for (const auto number : {SIGINT, SIGTERM})
    handle(number, by);
}

} // namespace

void end_on_interrupts() {
  handle_interrupts(on_interrupt_before_training);
}

const std::atomic<bool>& watch_for_interrupts() {
  handle_interrupts(on_first_interrupt);
  return asked;
}

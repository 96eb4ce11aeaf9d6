#include "interrupt.hpp"

#include <array>
#include <csignal>

namespace {

std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
  asked = true;
  std::signal(number, SIG_DFL);
}

/// For handlers on this thread, which may be inside one of oneDNN's generated
/// kernels: those keep more below the stack pointer than a handler spares.
void give_handlers_their_own_stack() {
  static std::array<char, 64 * 1024> room;
  stack_t x{};
  x.ss_sp = room.data();
  x.ss_size = room.size();
  ::sigaltstack(&x, nullptr);
}

} // namespace

const std::atomic<bool>& watch_for_interrupts() {
  give_handlers_their_own_stack();
  struct sigaction how {};
  how.sa_handler = on_signal;
  how.sa_flags = SA_ONSTACK | SA_RESTART;
  ::sigaction(SIGINT, &how, nullptr);
  ::sigaction(SIGTERM, &how, nullptr);
  return asked;
}

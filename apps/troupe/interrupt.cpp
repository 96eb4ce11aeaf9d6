#include "interrupt.hpp"

#include <csignal>

namespace {

std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int number) {
  asked = true;
  std::signal(number, SIG_DFL);
}

} // namespace

const std::atomic<bool>& watch_for_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return asked;
}

#pragma once

#include <atomic>

// Functions that set the effect of an interrupt: Ctrl-C (SIGINT), SIGTERM, or
// SIGHUP, the end of the terminal. A process that ignores SIGHUP, as under
// nohup, still ignores it. Each call replaces the effect that an earlier call
// has set.

/// From now on, the first interrupt ends the program immediately. The program
/// says that nothing was saved and exits with code `unsaved`.
void end_on_interrupts();

/// From now on, an interrupt ends the program as a signal that it does not
/// catch.
void die_of_interrupts();

/// Flags that interrupts set.
struct interrupt_flags {
  const std::atomic<bool>* stop;  ///< The run is to be saved.
  const std::atomic<bool>* leave; ///< This process is to leave its job.
};

/// From now on, the first interrupt only sets a flag. A second signal of the
/// same number ends the program immediately with a message and code `unsaved`.
/// SIGHUP does not, because the end of a terminal can send it several times.
/// @param sigterm_leaves each SIGTERM sets `leave`, instead of `stop`. It never
///        ends the program immediately: a second request to leave says no more
///        than the first.
interrupt_flags watch_for_interrupts(bool sigterm_leaves = false);

/// Message with which a second interrupt ends the program.
inline constexpr char second_interrupt[] =
  "ended immediately by a second interrupt; what was not saved before is lost";
/// Message with which an interrupt before the first step ends the program.
inline constexpr char nothing_to_save[] =
  "interrupted before training began; nothing was saved";

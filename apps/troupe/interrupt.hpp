#pragma once

#include <atomic>

// What Ctrl-C (SIGINT) and SIGTERM do. Each function holds until another is
// called.

/// The first one ends the program at once, with a sentence that nothing was
/// saved and the exit code `unsaved`.
void end_on_interrupts();

/// @returns what the first one sets. A second one of the same kind ends the
/// program at once, with a sentence and the exit code `unsaved`.
const std::atomic<bool>& watch_for_interrupts();

/// What is said when a second one ends everything.
inline constexpr char second_interrupt[] =
  "ended at once by a second interrupt; what was not saved before is lost";
/// What is said when a run is interrupted that has not begun.
inline constexpr char nothing_to_save[] =
  "interrupted before training began; nothing was saved";

#pragma once

#include "troupe/strategies/membership/view_messages.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <variant>
#include <vector>

/// The connection between two members of a running job has ended, and neither
/// is known to have ended. One of them makes it again.
///
///   who      the two members. The one with the higher task dials, the other
///            waits for it
///   start    `on_cut`, in both. `on_needed` in a process that reaches too few
///            others without the other one, which may be the same for both
///   on dial failed  dial again after a random delay, which grows
///   on connected  end: both are members of the view as before
///   on timeout  since the cut: the other process is lost
///   on dead  end: the host knows more
///   cost     one handshake
///   faults   more cuts than `max_cuts` within `cut_window` -> lost
namespace troupe::reconnection {

using std::chrono::milliseconds;
using view_change::process_id;

/// Time since an origin that the host chooses. It never decreases.
using time_point = milliseconds;

/// Dial the process after the delay.
struct dial {
  process_id process;
  milliseconds delay{0};
};
/// Call `on_timeout` with the process and this number after the delay.
struct set_timer {
  process_id process;
  std::uint64_t number = 0; ///< Counted by the state machine.
  milliseconds delay{0};
};
/// The connection could not be made again.
struct lost {
  process_id process;
};
using effect = std::variant<dial, set_timer, lost>;
using reaction = std::vector<effect>;

/// Shortest and longest time between two attempts to dial, before a random part
/// of at most a half is taken off.
inline constexpr milliseconds min_dial_delay{20}, max_dial_delay{200};
/// Maximum number of cuts of the connection to one process within the window.
inline constexpr std::size_t max_cuts = 10;
inline constexpr milliseconds cut_window{60'000};

class state_machine {
public:
  /// @param task    of this process.
  /// @param timeout time in which a connection must be made again. The two
  ///                processes use equal values.
  /// @param seed    of the random delays.
  state_machine(std::uint32_t task, milliseconds timeout, std::uint64_t seed);

  /// The connection to a process has ended. @pre this process awaits no
  /// connection to it.
  reaction on_cut(const process_id& process, time_point now);
  /// This process needs the other one, although their connection was given up.
  /// It dials, also if its task is the lower one, but then only when the other
  /// one had time to do so. @pre this process awaits no connection to it.
  reaction on_needed(const process_id& process);
  /// An attempt to dial the process has failed.
  /// @param is_final the process has said that it will not accept a connection.
  reaction on_dial_failed(const process_id& process, bool is_final);
  reaction on_timeout(const process_id& process, std::uint64_t number);
  /// The connection to the process has been made, or the process is known to
  /// have ended.
  void stop(const process_id& process) { awaited_.erase(process); }

  /// True if the connection to the process is to be made again.
  bool awaits(const process_id& process) const {
    return awaited_.contains(process);
  }
  /// True if this process awaits a connection to a process of this task.
  bool awaits_task(std::uint32_t task) const;
  /// A view has taken effect. Processes that are not its members are lost.
  reaction on_installed(const membership::view& current);

private:
  struct awaited {
    std::uint64_t timer = 0;
    milliseconds delay = min_dial_delay; ///< Delay before the next dial.
  };

  std::uint32_t task_;
  milliseconds timeout_;
  std::mt19937_64 random_;
  std::uint64_t timers_ = 0; ///< Number of the last timer.
  std::map<process_id, awaited> awaited_;
  /// Cuts in the last window.
  std::map<process_id, std::deque<time_point>> cuts_;
};

} // namespace troupe::reconnection

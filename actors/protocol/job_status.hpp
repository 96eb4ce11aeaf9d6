#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/strategies/fields.hpp"

#include <caf/typed_actor.hpp>

// What a job says of itself to whoever asks (`troupe status`).

namespace troupe {

/// The numbers are a wire format: append, never reuse.
enum class member_state : std::uint8_t {
  joining = 0, ///< Said hello; not seated yet.
  seated = 1,
  silent = 2, ///< Nothing is heard of it; it may live.
  lost = 3,   ///< Known to be dead.
  left = 4,   ///< Ended its part, and said so.
  absent = 5, ///< Has not come.
};

std::string to_string(member_state x);

struct member_status {
  std::string name; ///< Of the process: "worker 1".
  std::uint64_t incarnation = 0;
  std::uint64_t silence_ms = 0; ///< Since something was heard of it.
  member_state state = member_state::joining;
  auto fields() { return std::tie(name, incarnation, silence_ms, state); }
};

struct job_status {
  std::string job;
  std::vector<member_status> members; ///< By number; the leader too.
  std::uint64_t epoch = 0;            ///< Of the membership.
  std::uint64_t step = 0;             ///< The first that is not committed.
  double steps_per_second = 0;        ///< Over the last `window_ms`.
  std::uint64_t window_ms = 0; ///< 0: nothing runs, or it has only begun.
  std::uint64_t news_ms = 0;   ///< Since the last commit.
  /// Why `step` is not done, in sentences: the actors, what they do, and who is
  /// missing. Empty: nothing runs.
  std::string waiting;
  auto fields() {
    return std::tie(job, members, epoch, step, steps_per_second, window_ms,
                    news_ms, waiting);
  }
};

// -- protocol -----------------------------------------------------------------

/// STATUS: what a job's leader answers on channel 1 of a connection with the
/// purpose "status".
using status_actor =
  caf::typed_actor<caf::replies_to<atom::status>::with<job_status>>;

/// For people, several lines; the last has a line break.
std::string to_text(const job_status& x);

} // namespace troupe

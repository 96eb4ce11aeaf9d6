#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {

/// What an event of the flight recorder is about. The numbers are part of a
/// file format: append, never reuse.
enum class flight_event_kind : std::uint8_t {
  /// The caller has requested a run. `text` is the name of the call if the user
  /// does not count the steps of the run.
  run_begun = 0,
  steps_granted = 1,       ///< The chief: the steps below `step` are granted.
  step_committed = 2,      ///< `step` is committed, as this process knows.
  run_ended = 3,           ///< The run is complete; `step` was not run.
  run_failed = 4,          ///< The run has ended with the error `text`.
  generation_begun = 5,    ///< The replicas work in `generation`.
  view_change_begun = 6,   ///< The replicas must stop. `text` says why.
  replicas_stopped = 7,    ///< The replicas of this process have stopped.
  view_agreed = 8,         ///< `view` takes effect; `text` lists its members.
  lanes_opened = 9,        ///< The lanes of `view` are open.
  positions_gathered = 10, ///< The processes of `view` know their positions.
  state_copied = 11,       ///< This process has sent or received `bytes`.
  view_entered = 12,       ///< The call of the job goes on in `view`.
  no_majority = 13,        ///< Too few members answer. `text` names the others.
  excluded = 14,           ///< `view` is without this process.
  suspicion = 15,          ///< `replica` suspects `process`.
  connected = 16,          ///< A connection to `process` is open.
  disconnected = 17,       ///< The connection to `process` has ended: `text`.
  process_dead = 18,       ///< `process` is known to have ended.
  process_unreachable = 19, ///< `process` does not answer.
  process_lost = 20,        ///< `view` is without `process`.
  process_left = 21,        ///< `process` has left the job.
  process_joined = 22,      ///< `process` belongs to `view`.
  process_restarted = 23,   ///< Another life of `process` has connected.
  checkpoint_saved = 24,    ///< The file `text` is complete.
  /// `replica` or `process` has delayed `step` when the run failed. `text` is
  /// the operation that waits for it.
  role_missing = 25,
  job_failed = 26, ///< The error `text` has left a call of the strategy.
  /// This process, which is going to join, has copied `bytes` from `process`
  /// and has followed its updates up to `step`.
  state_copied_ahead = 27,
};

/// Returns the name of the kind, such as "step committed", or "event 77" for a
/// number that is not a kind.
std::string to_string(flight_event_kind x);

/// Something that has happened in a process of a job.
struct flight_event {
  static constexpr auto none = std::numeric_limits<std::uint32_t>::max();

  flight_event_kind kind = flight_event_kind::run_begun;
  /// Nanoseconds since `flight_identity::wall_ns`. The recorder sets it.
  std::int64_t time_ns = 0;
  /// Id of the view. Zero: the recorder takes that of the last event with one.
  std::uint64_t view = 0;
  std::uint64_t generation = 0; ///< Zero: unknown.
  std::uint64_t run = 0;        ///< Number of the run in its group.
  /// See the kinds. In runs, the number that the step has for the user, or the
  /// number in the group if the user does not count it.
  std::uint64_t step = 0;
  std::uint32_t process = none; ///< Task of a process. `none`: no process.
  std::uint32_t replica = none; ///< Id of a replica. `none`: no replica.
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;
  /// At most 4096 bytes; the recorder replaces the rest by "...".
  std::string text{};

  static constexpr std::size_t max_text_bytes = 96; ///< In one slot.

  friend bool operator==(const flight_event&, const flight_event&) = default;
};

/// Identity of the process whose events a recorder has.
struct flight_identity {
  std::string job = "local";                      ///< Name of the job.
  std::vector<std::string> names{"this process"}; ///< Processes, by task.
  std::uint32_t task = 0;                         ///< Task of this process.
  std::uint64_t incarnation = 0; ///< Identifies this life of the process.
  /// Time of the wall clock at which the recorder's clock was zero, in
  /// nanoseconds since 1970.
  std::int64_t wall_ns = 0;
  auto fields() { return std::tie(job, names, task, incarnation, wall_ns); }
  friend bool operator==(const flight_identity&,
                         const flight_identity&) = default;
};

/// Keeps the last events of a process. Any thread may call any function.
///
/// `record` takes no lock and never waits: a writer takes the next number, and
/// with one compare-and-swap the slot of that number. If another writer still
/// holds the slot, because as many events as the recorder holds were recorded
/// meanwhile, the event is dropped and counted. A reader copies a slot and
/// takes the copy only if the number of the slot was the same before and after.
/// All words of a slot are atomic, so a copy that it drops is no data race.
class flight_recorder {
public:
  static constexpr std::size_t default_capacity = 10'000;
  /// Returns nanoseconds of a clock that never goes back.
  using time_source = std::function<std::int64_t()>;

  /// @param now Null: the steady clock. A simulator passes its own.
  /// @cost reserves 176 bytes of address space for each event; pages that were
  ///       never written take no memory.
  explicit flight_recorder(std::size_t capacity = default_capacity,
                           time_source now = {});
  ~flight_recorder();
  flight_recorder(const flight_recorder&) = delete;
  flight_recorder& operator=(const flight_recorder&) = delete;

  /// @cost Reads the clock, stores at most 22 words a slot. Allocates nothing.
  void record(const flight_event& event) noexcept;

  /// Returns the events that are complete, oldest first.
  std::vector<flight_event> events() const;
  /// Number of events that were recorded or dropped, however long their texts.
  std::uint64_t recorded() const;
  /// Time of an event that happened now.
  std::int64_t now_ns() const;

  void set_identity(const flight_identity& identity);
  flight_identity identity() const;
  /// Returns the task of the process with this name, or `flight_event::none`.
  std::uint32_t task_of(const std::string& name) const;

private:
  const std::size_t capacity_;
  const time_source now_;
  std::int64_t first_ns_ = 0; ///< Time of `now_` in the constructor.
  /// Words of the slots, then the number of events.
  std::uint64_t* const words_;
  std::uint64_t next_ = 0;  ///< Number of the next event. Atomic access only.
  std::uint64_t view_ = 0;  ///< Last view of an event. Atomic access only.
  mutable std::mutex lock_; ///< Guards `identity_`.
  flight_identity identity_;
};

/// Records an event. No effect if there is no recorder.
inline void record_event(const std::shared_ptr<flight_recorder>& recorder,
                         const flight_event& event) noexcept {
  if (recorder)
    recorder->record(event);
}

} // namespace troupe

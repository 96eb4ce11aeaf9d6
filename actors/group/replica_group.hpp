#pragma once

#include "troupe/actors/core/step.hpp"
#include "troupe/actors/protocol/group_options.hpp"

#include <cstdint>
#include <functional>
#include <memory>

// What the code above the actors sees of a job's roles: no CAF here.

namespace troupe {

/// The replicas of a job, ready to work. If they are in several processes, each
/// has a crew, and all of them call `run` with the same steps, in the same
/// order; every `on_commit` hears of all replicas.
class crew {
public:
  virtual ~crew() = default;

  /// Of the whole job.
  virtual std::uint32_t replicas() const = 0;

  /// The replicas of the job that run in this process: [first, first + count).
  /// A step function is called for these alone, under their ids of the job, and
  /// so is what `for_each` is given.
  struct share {
    std::uint32_t first = 0, count = 1;
    std::uint32_t process = 0, processes = 1; ///< This one, and how many.

    friend bool operator==(const share&, const share&) = default;
  };
  virtual share local() const { return {0, replicas(), 0, 1}; }

  /// How many steps each replica may be ahead of the last commit, and how many
  /// commits may wait for `on_commit`. So after `stop` at most 2 * ahead()
  /// steps run on, counted from the last whose `on_commit` returned before.
  virtual std::uint64_t ahead() const { return default_step_window; }

  /// Runs the work to its end, or to where `stop` ended it.
  /// @returns the first step that was not run; all before it are committed.
  /// @errors throws `failure`: ec::stalled names actor, operation, step and who
  ///         is missing, also a process that did not come to run the same;
  ///         ec::peer_lost, or ec::unreachable if nothing is heard of a
  ///         process; ec::protocol if processes ask for different steps;
  ///         ec::invalid with the text of what a step function threw;
  ///         ec::cancelled if the crew's chief has ended.
  ///         std::exceptions that a step function threw while it ran on the
  ///         caller's own thread pass as they are.
  ///
  /// When it has thrown, no replica enters the step function any more. It waits
  /// for those inside up to twice the patience (at least 1 s). Whoever is
  /// inside still, being stuck in the caller's own code, is named in the
  /// failure; only then must what the step function refers to be kept, until
  /// that replica returns or the process ends. The function object itself is
  /// kept anyway.
  virtual std::uint64_t run(const work& x) = 0;

  /// Ends `run` after the steps that were granted already, at the same step in
  /// all processes; from `on_commit` or any other thread. Void when nothing
  /// runs.
  virtual void stop() = 0;

  /// Runs `fn` once for each replica id here, outside any step, each on its
  /// replica's thread and context, and waits: for setting up state that a
  /// thread owns.
  /// @errors throws `failure` that names a replica; then `fn` is not called any
  ///         more, and who is inside still is told as by `run`.
  virtual void for_each(const std::function<void(std::uint32_t)>& fn) = 0;
};

/// All replicas take turns on the caller's thread; no actor runs. With one
/// replica a step costs a function call.
std::unique_ptr<crew> make_inline_crew(const crew_options& options);

} // namespace troupe

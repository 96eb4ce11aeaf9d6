#pragma once

#include "troupe/actors/core/error_code.hpp"
#include "troupe/strategies/collective_options.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

// What the code above the actors sees of a job's roles: no CAF here.

namespace troupe {

/// A replica's side of one step: what a step function may ask of the others. It
/// is used on the fiber that the step runs on; whatever waits parks the fiber
/// and throws `superseded` if the step is abandoned meanwhile.
class step_context {
public:
  virtual ~step_context() = default;

  std::uint32_t replica = 0;  ///< Logical id, for life, in [0, replicas).
  std::uint32_t replicas = 1; ///< Of the job, for life.
  std::uint64_t step = 0;     ///< Global, from 0.
  std::uint64_t epoch = 0;    ///< Of the membership.
  step_report report;         ///< Filled in by the step function.

  /// Of the sums and gathers from here on: the crew's when a step begins. All
  /// replicas set the same. A timeout is of each wait that begins under it; one
  /// longer than the patience changes nothing.
  terms said;

  /// This replica's part of a bucket is complete: its sum may begin. Returns at
  /// once. The part must not change until the step ends; it is never written.
  /// @param bucket any number that the replicas agree on, once a step.
  virtual void contribute(std::uint32_t bucket, const tensor& part) = 0;

  /// The same of a part that its sum may take the place of, which saves the
  /// memory of one.
  virtual void give(std::uint32_t bucket, const tensor& part) {
    contribute(bucket, part);
  }

  /// Waits for the sum of a bucket that was contributed to: over all replicas,
  /// in the order of the canonical tree, the same elements for all; read-only.
  virtual tensor sum(std::uint32_t bucket) = 0;

  /// Brings a part and waits for those of all, in order of replica id.
  virtual tensors gather(std::uint32_t bucket, const tensor& part) = 0;

  /// From here on the step is not undone: all sums are in, the update begins.
  virtual void begin_update() = 0;
};

/// Thrown out of a wait when the step is abandoned, and again out of every
/// later wait of that step. Not an error: let it pass.
struct superseded {};

/// One step of one replica. Shared by all replicas, called from their threads.
/// An exception other than `superseded` ends the work with ec::invalid and the
/// exception's text.
using step_function = std::function<void(step_context&)>;

struct work {
  std::uint64_t first_step = 0;
  std::uint64_t steps = 1;
  step_function step;
  /// Called for each committed step, in order, on the thread that called `run`.
  std::function<void(const commit_record&)> on_commit;
  /// Longest that the processes that have called `run` wait for the others to
  /// call it, and then for the next commit beside the usual. The patience is
  /// the least.
  std::chrono::milliseconds join_timeout{0};
};

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
  virtual std::uint64_t ahead() const { return lease; }

  /// What `ahead` is in one process unless options say otherwise ...
  static constexpr std::uint64_t lease = 4;
  /// ... and over several, where a commit takes a while to get about.
  static constexpr std::uint64_t wide_lease = 16;

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

struct crew_options {
  std::uint32_t replicas = 1;
  int threads = 1; ///< Of each replica's ops.
  /// Longest that one step, or one wait in it, may take.
  std::chrono::milliseconds patience{60'000};
  /// How long a replica polls for a peer before it parks; negative: 50 us, or
  /// 2 ms where processes share a host, most of them only while nobody else
  /// wants the core; 0 if there are more replicas than cores.
  std::chrono::microseconds polling{-1};
  /// Whether sums are added on the replicas' own threads (the default where
  /// replicas take all cores), or by reducer actors.
  enum class reducers { automatic, hosted, own } reducing = reducers::automatic;
  std::uint64_t seed = 0;  ///< Of random ops (context.hpp).
  std::uint64_t lease = 0; ///< Of `crew::ahead`; 0: what is usual.
  /// Of sums over several processes.
  terms::ways way = terms::ways::tree;
};

/// All replicas take turns on the caller's thread; no actor runs. With one
/// replica a step costs a function call.
std::unique_ptr<crew> make_inline_crew(const crew_options& options);

} // namespace troupe

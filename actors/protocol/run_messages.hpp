#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/strategies/membership/run_barrier.hpp"

#include <caf/typed_actor.hpp>

#include <chrono>
#include <vector>

// What the chief and those who ask it for work say to each other, over
// processes too.

namespace troupe {

/// Longest that a report or a commit waits for more of its kind before it
/// leaves the process.
constexpr std::chrono::milliseconds longest_in_company{20};

/// Longest that a `seated` or a `blame` waits in its process for others before
/// it is sent.
constexpr std::chrono::milliseconds max_answer_delay{2};

/// Longest list, in elements of at most 64 bytes, that is sent in one message:
/// half of what a control frame can hold.
constexpr std::size_t max_batch_elements = 8192;

/// Commits of a run, in order.
struct run_commits {
  std::uint64_t run = 0;
  std::vector<commit_record> records;
  auto fields() { return std::tie(run, records); }
};

/// A run is through.
struct run_ended {
  std::uint64_t run = 0;
  std::uint64_t next = 0; ///< The first step that was not run.
  auto fields() { return std::tie(run, next); }
};

/// A run ends, or does not begin.
struct run_failed {
  std::uint64_t run = 0;
  ec code = ec::stalled;
  std::string why;
  auto fields() { return std::tie(run, code, why); }
};

/// A caller is through with the commits of a run before this step.
struct run_heard {
  std::uint32_t process = 0;
  std::uint64_t run = 0;
  std::uint64_t next = 0;
  auto fields() { return std::tie(process, run, next); }
};

/// CALLER: who hears of the work, in each process.
using caller_actor =
  caf::typed_actor<caf::reacts_to<run_commits>, caf::reacts_to<run_ended>,
                   caf::reacts_to<run_failed>>;

/// What replicas of a process said to their owner, in one message. The receiver
/// handles the fields in the order in which they stand here.
struct owner_batch {
  std::vector<commit::seated> seated;
  std::vector<commit::report> reports;
  std::vector<commit::blame> blames;
  auto fields() { return std::tie(seated, reports, blames); }
};

/// Cuts a batch into batches that each fit into a frame, in the same order.
std::vector<owner_batch> split(const owner_batch& x);

/// OFFICE: the chief, as other processes see it.
using office_actor = owner_actor::extend<
  // What replicas of a process said to their owner.
  caf::reacts_to<owner_batch>,
  // A process is ready to run.
  caf::reacts_to<muster::join>, caf::reacts_to<run_heard>,
  // Grants no more steps of that run.
  caf::reacts_to<muster::stop>>;

/// FRONT: the chief or the steward, as the crew of its process sees it.
using front_actor = caf::typed_actor<
  // Ready to run, with this process's function.
  caf::reacts_to<muster::join, step_ref>, caf::reacts_to<run_heard>,
  caf::reacts_to<muster::stop>>;

} // namespace troupe

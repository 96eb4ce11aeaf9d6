#pragma once

#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/strategies/step_commit/stall_report.hpp"

#include <caf/actor_clock.hpp>
#include <caf/typed_response_promise.hpp>

#include <deque>
#include <set>
#include <utility>
#include <vector>

namespace troupe {

/// Rate of committed steps over the last ten seconds of a run.
class step_rate {
public:
  using time_point = caf::actor_clock::time_point;

  /// Starts the measurement of a run.
  /// @param next the first step that is not committed.
  void begin(time_point now, std::uint64_t next);
  /// @param next the first step that is not committed now.
  void on_commit(time_point now, std::uint64_t next);

  /// Fills in the rate, its window and the time since the last commit. No
  /// effect before the first run.
  void write_to(time_point now, job_status& status) const;

private:
  struct sample {
    time_point time{};
    std::uint64_t next_step = 0; ///< The first step that was not committed.
  };
  std::deque<sample> samples_;
  sample last_;
};

/// A round of probes that the chief sends to its roles when it is asked for the
/// status of the job. One round answers all requests that arrive until it ends.
struct status_survey {
  std::vector<caf::typed_response_promise<job_status>> requests;
  /// Number of the last round, counted by the chief.
  std::uint64_t round = 0;
  /// Generation and step that the probes ask about.
  std::uint64_t generation = 0, step = 0;
  std::vector<step_commit::wait_report> wait_reports;
  /// Roles that answered in this round: true for a reducer, and the id.
  std::set<std::pair<bool, std::uint32_t>> reporting_roles;
  /// Replicas that were probed about the step and did not answer. They are not
  /// probed again: a replica that computes does not read its mailbox, where
  /// the probes of all rounds would accumulate.
  std::set<std::uint32_t> unanswered;

  ~status_survey();
  void begin(std::uint64_t new_generation, std::uint64_t new_step);
  void on_wait_report(const step_commit::wait_report& report);
};

} // namespace troupe

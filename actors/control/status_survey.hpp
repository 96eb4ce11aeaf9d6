#pragma once

#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/strategies/step_commit/waits.hpp"

#include <caf/actor_clock.hpp>
#include <caf/typed_response_promise.hpp>

#include <deque>
#include <set>
#include <utility>
#include <vector>

namespace troupe {

/// Measures the rate of committed steps over the last ten seconds of a run.
class step_rate {
public:
  using time_point = caf::actor_clock::time_point;

  /// Starts the measurement of a run.
  /// @param next first step of the run.
  void begin(time_point now, std::uint64_t next);
  /// Notes a commit.
  /// @param next first step that is not committed now.
  void on_commit(time_point now, std::uint64_t next);

  /// Fills in three fields of `status`: the rate, the time that the rate
  /// covers, and the time since the last commit. No effect before the first
  /// run.
  void write_to(time_point now, job_status& status) const;

private:
  struct sample {
    time_point time{};
    std::uint64_t next_step = 0; ///< First step not committed at `time`.
  };
  std::deque<sample> samples_;
  sample last_;
};

/// One round of probes to the replicas and reducers. The chief begins it when a
/// client requests the job's status. The round answers all requests that arrive
/// before it ends.
struct status_survey {
  std::vector<caf::typed_response_promise<job_status>> requests;
  /// Number of the last round. The chief increments it.
  std::uint64_t round = 0;
  /// Generation and step that the probes ask about.
  std::uint64_t generation = 0, step = 0;
  std::vector<step_commit::wait_report> wait_reports;
  /// Roles that answered in this round. The first value of a pair is true for a
  /// reducer and false for a replica. The second value is the id of the role.
  std::set<std::pair<bool, std::uint32_t>> reporting_roles;
  /// Replicas that have not answered a probe about this step. Later rounds do
  /// not probe them again: a replica that computes does not read its mailbox,
  /// so the probes would accumulate there.
  std::set<std::uint32_t> unanswered;

  ~status_survey();
  void begin(std::uint64_t new_generation, std::uint64_t new_step);
  void on_wait_report(const step_commit::wait_report& report);
};

} // namespace troupe

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

/// How fast steps are committed, over the last ten seconds of a run.
class job_pace {
public:
  using time_point = caf::actor_clock::time_point;

  /// @param next the first step that is not committed.
  void begin(time_point now, std::uint64_t next);
  void commit(time_point now, std::uint64_t next);

  void tell(time_point now, job_status& to) const;

private:
  struct mark {
    time_point at{};
    std::uint64_t next = 0;
  };
  std::deque<mark> marks_;
  mark last_;
};

/// What a chief asked because somebody asked it how the job does.
struct chief_survey {
  std::vector<caf::typed_response_promise<job_status>> askers;
  std::uint64_t number = 0;          ///< Of the last round of questions.
  std::uint64_t epoch = 0, step = 0; ///< It is about these.
  std::vector<commit::blame> said;
  /// Who said it: whether a reducer, and its id.
  std::set<std::pair<bool, std::uint32_t>> speakers;
  /// Replicas that owe an answer about the step. One that computes reads no
  /// mail for long, and must not find a question for each round.
  std::set<std::uint32_t> owing;

  ~chief_survey();
  void begin(std::uint64_t of_epoch, std::uint64_t of_step);
  void on(const commit::blame& x);
};

} // namespace troupe

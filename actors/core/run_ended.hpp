#pragma once

#include "troupe/actors/core/job_error.hpp"

namespace troupe {

/// Exception of a step that cannot begin, because its run has ended in this
/// process. The run may go on in others: if the view of the job changes, the
/// processes end their runs one after the other. For them it is a loss of the
/// replica, not an error of the step function.
class run_ended : public job_error {
public:
  run_ended() : job_error(ec::peer_lost, "its process has ended the run") {}
};

} // namespace troupe

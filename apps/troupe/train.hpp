#pragma once

#include "troupe/training/job/job.hpp"

#include <string>

/// The command line of `troupe train`.
struct train_arguments {
  troupe::job job;
  std::string summary, save, resume;
  std::uint64_t max_steps = 0;
  bool quiet = false;

  /// Where a run is saved that is interrupted, or that was and now ends.
  std::string rescue() const {
    if (!save.empty())
      return save;
    return resume.empty() ? "interrupted.troupe" : resume;
  }
};

int train(const train_arguments& x);

/// The same in as many processes as the job has workers: this program again,
/// which is then told by TF_CONFIG which worker it is.
int train_in_processes(const troupe::settled_job& job);

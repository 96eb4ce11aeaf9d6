#pragma once

#include "troupe/training/job/job.hpp"
#include "troupe/training/job/train_summary.hpp"

#include <string>

/// The command line of `troupe train`.
struct train_arguments {
  troupe::train_options options;
  std::string summary, save, resume;
  std::string init;   ///< File with the first weights of a new run.
  std::string faults; ///< File of a plan of faults. Empty: no faults.
  std::uint64_t max_steps = 0;
  /// Steps between saves. With parameter servers, also between copies of their
  /// state, from which the run can go on. Zero: the option is not given.
  std::uint64_t save_steps = 0;
  std::uint64_t save_epochs = 0; ///< Zero: the option is not given.
  /// An evaluator evaluates the versions of the saved model.
  bool evaluator = false;
  /// Restarts of processes that a signal has ended.
  std::uint64_t restarts = 0;
  bool join = false; ///< This worker joins the running job.
  /// Seconds for which it waits until its task is free. Zero: not at all.
  std::uint64_t spare_seconds = 0;
  bool any_task = false; ///< It waits until the job lacks any task.
  /// Address at which such a spare listens. Empty: a port of 127.0.0.1.
  std::string listen;
  /// SIGTERM lets this process leave its job. False: all save the run.
  bool sigterm_leaves = false;
  bool quiet = false;

  /// File that an interrupted or resumed run is saved to.
  std::string save_path() const {
    if (!save.empty())
      return save;
    return resume.empty() ? "interrupted.troupe" : resume;
  }

  /// True if the command line names a file to which the run is saved.
  bool names_file() const { return !save.empty() || !resume.empty(); }
};

/// Runs `troupe train`. @returns the exit code.
int train(const train_arguments& given_arguments);

/// Starts this program once per worker of the job and waits for all workers.
/// TF_CONFIG tells each process its worker index. @returns the exit code.
/// A worker that a signal has ended is started again, and joins the job.
int launch_workers(const troupe::train_config& config,
                   const train_arguments& arguments);

/// Prints the test metrics and the hash of the weights.
void print_result(const troupe::train_summary& summary);

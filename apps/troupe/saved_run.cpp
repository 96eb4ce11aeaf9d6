#include "saved_run.hpp"

#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <iostream>
#include <stdexcept>
#include <string>

using namespace troupe;

train_options options_of(const train_arguments& arguments) {
  if (arguments.resume.empty())
    return arguments.options;
  return merge_for_resume(read_train_options(saved_note(arguments.resume)),
                          arguments.options);
}

void check_outputs(const train_arguments& arguments) {
  if (!arguments.save.empty() || !arguments.resume.empty())
    check_writable(arguments.save_path());
  if (!arguments.summary.empty())
    check_writable(arguments.summary);
}

void check_epochs(const model& model, const train_config& config) {
  const auto done = model.epochs_done();
  // The job may have failed after the last step of the last epoch.
  if (model.interrupted_between_epochs() && config.epochs == done)
    return;
  if (config.epochs <= done)
    throw std::invalid_argument(
      "--epochs " + std::to_string(config.epochs) + ": the run has completed "
      + std::to_string(done) + (done == 1 ? " epoch" : " epochs")
      + "; give more");
}

bool is_unfinished(const history& result) {
  return result.end == fit_end::interrupted || result.end == fit_end::max_steps;
}

void print_interrupted(const train_arguments& arguments, std::uint64_t steps) {
  std::cerr << "interrupted after step " << steps << "; continue with: "
            << "troupe train --resume " << arguments.save_path() << '\n';
}

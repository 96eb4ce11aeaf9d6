#pragma once

#include "train.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/loop/history.hpp"
#include "troupe/training/model.hpp"

#include <cstdint>

// How `troupe train` saves a run, and resumes one.

/// Returns the options of the run: with --resume those of the saved run, with
/// the changes on the command line.
/// @errors throws std::runtime_error if the file cannot be read,
///         std::invalid_argument as `merge_for_resume`.
troupe::train_options options_of(const train_arguments& arguments);

/// Checks that the output files can be written, so that an error is reported
/// before the training and not after it.
void check_outputs(const train_arguments& arguments);

/// Checks that a model has epochs left to train.
/// @errors throws std::invalid_argument if it has none.
void check_epochs(const troupe::model& model,
                  const troupe::train_config& config);

/// True if the fit was interrupted, so that the run can be resumed.
bool is_unfinished(const troupe::history& result);

/// Writes the command that resumes an interrupted run.
void print_interrupted(const train_arguments& arguments, std::uint64_t steps);

#pragma once

#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/loop/options/history.hpp"
#include "troupe/training/model.hpp"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>

// How `troupe train` saves a run, and resumes one.

/// Returns the path under which the version before that of a file is kept.
std::filesystem::path previous_version_of(const std::filesystem::path& file);

/// Keeps a file as the version before the one that is written next.
/// @returns false: there is no file, or the file system has no hard links,
///          which a warning says.
bool keep_previous_version(const std::filesystem::path& file);

/// What --resume names.
struct resumed_run {
  troupe::model state;
  bool is_previous_version = false; ///< The file itself is damaged.
};

/// Loads the file of --resume. If it is damaged, loads the version before it,
/// and a warning says so.
/// @errors throws std::runtime_error that names the file if neither can be
///         read.
resumed_run load_resumed(const train_arguments& arguments);

/// Returns the note of the file of --resume, or of the version before it.
/// @errors as `load_resumed`
std::string resumed_note(const train_arguments& arguments);

/// Returns the model of the file of --resume, or of the version before it.
/// @errors as `load_resumed`
troupe::models::model_description
resumed_model(const train_arguments& arguments);

/// Returns the columns of the table on which a model was trained. Empty: they
/// are not known.
troupe::table_columns columns_of(const troupe::model& saved);

/// Returns the options of the run: with --resume those of the saved run, with
/// the changes on the command line. With --init, model, loss, precision and
/// data are those of the saved run if they are not given.
/// @errors throws std::runtime_error if the file cannot be read. Throws
///         std::invalid_argument as `merge_for_resume`, and if neither the file
///         of --init nor --data names the data.
troupe::train_options options_of(const train_arguments& arguments);

/// Checks before the training that the output files can be written, and that
/// the disk has space for the model.
void check_outputs(const train_arguments& arguments,
                   const troupe::train_config& config);

/// Saves the model of a run. If its file cannot be written, saves the model in
/// the folder for temporary files, so that the training is not lost, and says
/// where. All workers call it.
/// @returns the error of the file of the run. Null: the file is written.
/// @errors throws job_error if the job has failed.
std::exception_ptr save_run(const troupe::model& model,
                            const train_arguments& arguments,
                            const troupe::train_config& config);

/// Checks that the run in the file of --resume has epochs left to train. No
/// effect without --resume.
/// @errors throws std::invalid_argument if it has none, std::runtime_error as
///         `load_resumed`.
void check_resumable(const train_arguments& arguments,
                     const troupe::train_config& config);

/// Makes the model of a new run. With --init it has the weights in that file.
/// @errors throws std::runtime_error if the file cannot be read,
///         std::invalid_argument if its variables are others.
troupe::model new_model(const train_arguments& arguments,
                        const troupe::train_config& config);

/// True if the fit was interrupted, so that the run can be resumed.
bool is_unfinished(const troupe::history& result);

/// Returns the exit code of a run that has not failed. If no step of it has
/// made its update, says so, and the exit code is `failed`.
int report_end(const troupe::history& result);

/// Writes the command that resumes an interrupted run.
void print_interrupted(const train_arguments& arguments, std::uint64_t steps);

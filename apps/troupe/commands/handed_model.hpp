#pragma once

#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/apps/troupe/launcher/child_processes.hpp"
#include "troupe/apps/troupe/launcher/private_directory.hpp"
#include "troupe/models/description.hpp"

#include <optional>

/// The model of a run, which the launcher reads once and hands to all processes
/// of the run. The file of the user may have changed when a process is started
/// again. The destructor removes the copy.
class handed_model {
public:
  /// @errors throws as `model_of`.
  handed_model(const train_arguments& arguments,
               const troupe::train_config& config);

  void add_to(environment_changes& variables) const;

private:
  std::optional<private_directory> directory_;
  std::string copy_; ///< Empty: no file has the model.
};

/// Returns the model of a run: the model in the file of --resume, else the
/// model that the launcher has handed over, else the model of --model. If
/// --init is given and --model is not, the file of --init has the model.
/// @errors throws std::invalid_argument as `models::find_model`;
///         std::runtime_error if the file of --resume or --init cannot be read.
troupe::models::model_description model_of(const train_arguments& arguments,
                                           const troupe::train_config& config);

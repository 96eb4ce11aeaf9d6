#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/model.hpp"

#include <string>

/// The datasets of a run of `troupe train`, in batches.
struct run_data {
  troupe::data::dataset training, test;
};

/// Opens the data of a run.
/// @param config gets the columns of a table, if it does not name them.
/// @errors throws as `open_data`.
run_data open_batches(troupe::train_config& config);

/// Describes the data, one "name: value" a line, for a comparison.
std::string describe(const run_data& x);

troupe::model_options model_options_of(const troupe::train_config& config);

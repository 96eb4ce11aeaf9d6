#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/model.hpp"

/// The datasets of a run of `troupe train`, in batches.
struct run_data {
  troupe::data::dataset training, test;
};

/// @errors throws as `open_data`.
run_data open_batches(const troupe::train_config& config);

troupe::model_options model_options_of(const troupe::train_config& config);

#pragma once

#include "troupe/training/job/job.hpp"

namespace troupe {

/// True if a run had parameter servers and has some when it is resumed,
/// however many.
/// @param saved   options of the run.
/// @param changes of the user.
bool stays_on_servers(const train_options& saved, const train_options& changes);

/// Changes where a run that is resumed computes: its strategy, devices,
/// replicas, workers, transport, servers, consistency and replication. A run
/// that stays on its servers keeps what `changes` does not give; another one
/// gets the defaults, with as many replicas. The consistency of the tables is
/// kept only if that of the other parameters is.
/// @param out the options of the run, with all other changes.
/// @errors throws std::invalid_argument if the run could end with other weights
///         than `saved`, unless `changes.other_replicas` allows it.
void change_placement(train_options& out, const train_options& saved,
                      const train_options& changes);

} // namespace troupe

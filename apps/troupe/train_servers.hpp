#pragma once

#include "train.hpp"
#include "troupe/training/job/job.hpp"

#include <cstdint>

/// Runs `troupe train --strategy parameter_server`. In a cluster that TF_CONFIG
/// describes, this process is one of its tasks: the chief trains, workers and
/// parameter servers (ps) are nodes that it uses. Without a cluster it starts
/// all of them on this machine.
/// @returns the exit code.
int train_with_servers(const train_arguments& arguments);

/// Starts this program once for the chief, each worker and each server, and
/// waits for all of them. @returns the exit code.
/// @param restarts maximum number of workers, and of servers that have copies,
///                 that are started again after a signal has ended them.
/// @param faults   file of the plan of faults that the processes inject. Empty:
///                 none.
int launch_with_servers(const troupe::train_config& config,
                        std::uint64_t restarts, const std::string& faults);

#pragma once

#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/training/job/job.hpp"

/// Runs `troupe train --strategy parameter_server`. In a cluster that TF_CONFIG
/// describes, this process is one of its tasks. The chief trains; workers and
/// parameter servers (ps) are the nodes of the chief. Without a cluster it
/// starts all of them on this machine.
/// @returns the exit code.
int train_with_servers(const train_arguments& arguments);

/// Starts this program once for the chief, each worker, each server, and the
/// evaluator if there is one, and waits for all of them. If a signal ends
/// workers, servers or the evaluator, they are started again, at most
/// `arguments.restarts` times in all. @returns the exit code.
int launch_with_servers(const troupe::train_config& config,
                        const train_arguments& arguments);

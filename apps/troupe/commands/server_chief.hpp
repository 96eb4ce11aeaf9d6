#pragma once

#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/parameter_server/server_training.hpp"

#include <functional>
#include <string>

/// Returns what a worker trains, from what the chief tells it.
using training_description =
  std::function<troupe::server_training(const std::string& arguments)>;

/// Name of the variable of a run with parameter servers.
inline constexpr auto server_variable_name = "parameters";

/// Trains as the chief of a run with parameter servers: uses the workers and
/// servers of the cluster. If a server without copies is lost, at most
/// `arguments.restarts` times, it waits until the server can be reached again.
/// Then it gives the state of one step, which it has copied before, to all
/// servers, and goes on from there. If the run is to end and no worker is left,
/// this process completes the steps that have begun.
/// @returns the exit code.
int lead_with_servers(const train_arguments& arguments,
                      const troupe::train_config& config,
                      const troupe::net::cluster_spec& cluster,
                      const training_description& describe);

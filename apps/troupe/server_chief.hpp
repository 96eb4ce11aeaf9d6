#pragma once

#include "train.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/training/job/job.hpp"

/// Name of the variable of a run with parameter servers.
inline constexpr auto server_variable_name = "parameters";

/// Trains as the chief of a run with parameter servers: uses the workers and
/// servers of the cluster. If a server without copies is lost, at most
/// `arguments.restarts` times, it waits until the server can be reached again.
/// Then it gives the state of one step, which it has copied before, to all
/// servers, and goes on from there.
/// @returns the exit code.
int lead_with_servers(const train_arguments& arguments,
                      const troupe::train_config& config,
                      const troupe::net::cluster_spec& cluster);

#pragma once

#include "troupe/simulation/simulated_network_core.hpp"

#include <cstddef>
#include <memory>

namespace troupe::simulation {

/// Makes a simulated control connection between two processes.
std::shared_ptr<simulated_link>
make_simulated_connection(const std::shared_ptr<network_core>& net,
                          const network_core::process_pair& processes);
/// Makes one end of a simulated control connection.
/// @param side 0: the end of the process with the lower number. 1: the end of
///        the other process.
/// @param peer hello of the process at the other end.
std::shared_ptr<net::connection>
make_connection_end(const std::shared_ptr<simulated_link>& link,
                    std::size_t side, const net::hello& peer);

} // namespace troupe::simulation

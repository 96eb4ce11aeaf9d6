#pragma once

#include "troupe/simulation/simulated_network_core.hpp"

#include <cstddef>
#include <memory>

namespace troupe::simulation {

/// Makes a simulated lane between two processes. The lane carries packets in
/// both directions.
/// @param ends_with_end true: the lane ends when one of its ends is destroyed.
std::shared_ptr<simulated_link>
make_simulated_lane(const std::shared_ptr<network_core>& net,
                    const network_core::process_pair& processes,
                    bool ends_with_end = false);
std::unique_ptr<net::lane>
make_lane_end(const std::shared_ptr<simulated_link>& link, std::size_t side);

} // namespace troupe::simulation

#pragma once

#include "troupe/tests/strategies/checked_job.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// Makes a training on parameter servers whose actors are in the simulator,
/// with random faults (random_training.cpp).
std::unique_ptr<checked_job> make_random_training(std::uint64_t seed);

} // namespace troupe

#pragma once

// All that a program needs; no CAF type is named here. Tests of one's own
// training under faults also take headers of "troupe/simulation/" and link
// Troupe::simulation.

#include "troupe/tensors/tape.hpp"

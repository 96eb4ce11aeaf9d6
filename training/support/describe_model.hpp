#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/precision.hpp"
#include "troupe/tensors/device.hpp"
#include "troupe/tensors/optim/update_rules.hpp"

#include <string>

namespace troupe {

/// Describes a network for a comparison between processes. Each line is "name:
/// value": the name of the network, the shape of its input, or a setting of a
/// layer. Two descriptions that compute alike have equal texts.
std::string describe_model(const models::model_description& x);

/// Describes in what layers compute. CPUs and other devices give other bits,
/// and so do processors with and without instructions for bfloat16.
std::string describe_precision(models::precision x, const device& on);

/// Describes an update rule in a line, without its learning rate, which a
/// program may change between any two steps.
std::string describe_rule(const update_rule& x);

} // namespace troupe

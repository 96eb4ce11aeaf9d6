#pragma once

#include "troupe/data/pipeline/batch.hpp"
#include "troupe/models/network.hpp"
#include "troupe/tensors/device.hpp"

#include <string_view>

namespace troupe {

/// Name of the tensor of a batch that has the categories.
inline constexpr std::string_view categories_name = "categories";

/// Returns what a network computes with: the inputs of a batch, and its tensor
/// "categories" if the network has categories. The inputs are copied to a
/// device, unless they are there.
inline models::model_inputs
inputs_of(const batch& rows, const models::network& net, const device& on) {
  models::model_inputs out{rows.inputs.to(on)};
  if (net.categories() > 0)
    if (const auto* found = rows.find(categories_name))
      out.categories = *found;
  return out;
}

} // namespace troupe

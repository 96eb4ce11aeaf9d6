#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"

#include <cstdint>
#include <string_view>

// Checks that each fit and evaluation makes before its first step, whatever
// trains the model. Each throws std::invalid_argument.

namespace troupe {

/// Checks that the data has an end, and fits the model and its loss.
/// @param description name of the data in the error text, such as "the training
///        data".
void check_data(const models::network& net, const models::loss& loss,
                const data::dataset& batches, std::string_view description);

void check_epochs(std::uint64_t epochs);

/// Checks that every replica gets an example of a whole batch.
/// @pre the data has passed `check_data`.
void check_batch_rows(const data::dataset& batches, std::uint32_t replicas);

} // namespace troupe

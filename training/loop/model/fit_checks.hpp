#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/network.hpp"
#include "troupe/tensors/optim/schedules.hpp"
#include "troupe/training/loop/model/example_losses.hpp"

#include <cstdint>
#include <optional>
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

/// Checks the rate of the last step: a rate that grows without bound is largest
/// there. A function is called for its own steps only.
/// @param steps that the model has made before.
/// @param batches in an epoch.
void check_schedule(const std::optional<schedule>& used, std::uint64_t steps,
                    std::uint64_t epochs, std::uint64_t batches);

/// Checks that every replica gets an example of a whole batch.
/// @pre the data has passed `check_data`.
void check_batch_rows(const data::dataset& batches, std::uint32_t replicas);

/// Makes the checks that do not depend on what trains the model. The schedule
/// of a resumed fit was checked when the fit began.
/// @param steps that the model has made before.
/// @param options `fit_options` or `server_fit_options`.
template <class Options>
void check_fit(const models::network& net, const models::loss& loss,
               std::uint64_t steps, const data::dataset& batches,
               const Options& options) {
  check_data(net, loss, batches, "the training data");
  if (options.validation)
    check_data(net, loss, *options.validation, "the validation data");
  check_epochs(options.epochs);
  if (!options.resume)
    check_schedule(options.schedule, steps, options.epochs, *batches.size());
  check_class_weights(loss, net, batches.classes(), options.class_weights);
}

} // namespace troupe

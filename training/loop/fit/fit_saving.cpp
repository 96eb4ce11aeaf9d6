// This file implements the saves of `fit` while it trains.

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"

#include <limits>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

/// Returns the number of steps of a fit up to a position.
std::uint64_t steps_of(const fit_position& x) {
  return x.epochs_done() * x.batches + x.next_batch.index;
}

} // namespace

std::uint64_t fit_loop::steps_to_save() const {
  if (!options_.save || options_.save->steps == 0)
    return std::numeric_limits<std::uint64_t>::max();
  return options_.save->steps - steps_of(position_) % options_.save->steps;
}

void fit_loop::save_if_due() {
  const auto& save = options_.save;
  if (!save || !save_model_)
    return;
  const bool ends_epoch = position_.next_batch.index == 0;
  if (!(save->steps > 0 && steps_of(position_) % save->steps == 0)
      && !(save->epochs > 0 && ends_epoch
           && position_.epochs_done() % save->epochs == 0))
    return;
  identify_data();
  model_.interrupted = position_;
  try {
    save_model_();
  } catch (const job_error&) {
    throw;
  } catch (const device_lost&) {
    throw;
  } catch (const std::runtime_error& e) { // the file cannot be written
    if (model_.strategy->placement.process == 0)
      log(log_level::warning,
          std::string{e.what()} + "; the training goes on without this file");
  }
  model_.interrupted.reset();
}

} // namespace troupe

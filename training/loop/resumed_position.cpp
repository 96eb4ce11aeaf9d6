#include "troupe/training/loop/resumed_position.hpp"

#include "troupe/training/strategies/local_batches.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

fit_position resumed_position(const std::optional<fit_position>& interrupted,
                              const fit_position& begin,
                              std::optional<std::uint64_t> first_epoch) {
  if (!interrupted)
    throw std::invalid_argument("there is no interrupted fit to resume; fit "
                                "without resume");
  const auto& old = *interrupted;
  if (old.batches != begin.batches)
    throw std::invalid_argument("the interrupted fit had "
                                + std::to_string(old.batches)
                                + " batches in an epoch, but this dataset has "
                                + std::to_string(begin.batches)
                                + "; resume with the same data and batch");
  if (old.replicas != begin.replicas)
    throw std::invalid_argument(
      "the interrupted fit had " + std::to_string(old.replicas)
      + " replicas, but this fit has " + std::to_string(begin.replicas)
      + "; resume with the same number");
  if (old.replica_shares != begin.replica_shares)
    throw std::invalid_argument(
      "replica_shares " + shares_text(begin.replica_shares)
      + ": the interrupted fit had the shares "
      + shares_text(old.replica_shares) + "; resume with the same shares");
  if (old.metrics != begin.metrics)
    throw std::invalid_argument("the interrupted fit had the metrics "
                                + old.metrics + ", but this fit has "
                                + begin.metrics
                                + "; resume with the same metrics");
  if (first_epoch.value_or(old.first_epoch) != old.first_epoch)
    throw std::invalid_argument(
      "first_epoch " + std::to_string(*first_epoch)
      + ": the interrupted fit began with epoch "
      + std::to_string(old.first_epoch)
      + " of the data; give that, or leave the option out");
  return old;
}

void accept_replicas(model_state& state, std::uint32_t replicas,
                     const std::vector<std::uint32_t>& replica_shares) {
  if (!state.interrupted)
    return;
  state.interrupted->replicas = replicas;
  state.interrupted->replica_shares = replica_shares;
}

} // namespace troupe

#include "troupe/training/loop/fit/resumed_position.hpp"

#include "troupe/training/strategies/replica/local_batches.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

namespace {

/// Says in what the data differs from that of the interrupted fit. Empty: it
/// does not, as far as is known.
std::string difference_of_data(const data_identity& old,
                               const data_identity& now) {
  const auto other_batch = [](const char* which, const std::string& was,
                              const std::string& is) {
    return std::string{"the "} + which
           + " batch of this dataset has other values (" + is
           + ") than that of the interrupted fit (" + was + ")";
  };
  if (old.examples && now.examples && *old.examples != *now.examples)
    return "the interrupted fit had " + std::to_string(*old.examples)
           + " examples in an epoch, but this dataset has "
           + std::to_string(*now.examples);
  const auto differ = [](const std::string& a, const std::string& b) {
    return a != b && !a.empty() && !b.empty() && !is_unreadable(a)
           && !is_unreadable(b);
  };
  if (differ(old.first_batch, now.first_batch))
    return other_batch("first", old.first_batch, now.first_batch);
  if (differ(old.last_batch, now.last_batch))
    return other_batch("last", old.last_batch, now.last_batch);
  return {};
}

} // namespace

fit_position resumed_position(const std::optional<fit_position>& last,
                              const fit_position& begin,
                              const resume_request& options) {
  const auto& first_epoch = options.first_epoch;
  const auto epochs = options.epochs;
  const bool accepts_replicas = options.accept_replicas.value_or(false);
  const auto* const or_accept =
    options.accept_replicas
      ? ", or with accept_replicas if the weights may have other bits"
      : "";
  if (!last)
    throw std::invalid_argument("there is no interrupted fit to resume; fit "
                                "without resume");
  const auto& old = *last;
  if (old.is_complete && epochs <= old.epochs_done())
    throw std::invalid_argument(
      "epochs: " + std::to_string(epochs) + ": the fit to resume has completed "
      + std::to_string(old.epochs_done())
      + "; give more, or fit without resume to begin a new one");
  if (old.batches != begin.batches)
    throw std::invalid_argument("the interrupted fit had "
                                + std::to_string(old.batches)
                                + " batches in an epoch, but this dataset has "
                                + std::to_string(begin.batches)
                                + "; resume with the same data and batch");
  if (old.data && begin.data)
    if (const auto text = difference_of_data(*old.data, *begin.data);
        !text.empty())
      throw std::invalid_argument(
        text + "; resume with the same data in the same order");
  if (old.replicas != begin.replicas && !accepts_replicas)
    throw std::invalid_argument(
      "the interrupted fit had " + std::to_string(old.replicas)
      + " replicas, but this fit has " + std::to_string(begin.replicas)
      + "; resume with the same number" + or_accept);
  if (old.replica_shares != begin.replica_shares && !accepts_replicas)
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
  auto out = old;
  if (!out.data) // an older Troupe has saved it
    out.data = begin.data;
  out.replicas = begin.replicas;
  out.replica_shares = begin.replica_shares;
  out.is_complete = false;
  return out;
}

} // namespace troupe

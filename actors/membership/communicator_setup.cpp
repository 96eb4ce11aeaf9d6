#include "troupe/actors/membership/cluster_impl.hpp"

#include <utility>

// How the processes of a view agree whether NCCL adds their sums.

namespace troupe {

namespace {

/// Returns the processes that host replicas, which have the ranks.
std::vector<communicator_channels::peer> peers_of(const world& job) {
  std::vector<communicator_channels::peer> out;
  for (std::uint32_t p = 0; p < job.processes(); ++p)
    if (!job.placement.job.replicas_of(p).empty())
      out.push_back({job.names[p], p == job.placement.process
                                     ? nullptr
                                     : job.connections[p]});
  return out;
}

} // namespace

/// Makes the ranks of this process in a view, if all processes with replicas
/// can use NCCL.
/// @errors throws `job_error`: an offer is missing. In the first view also if
///         NCCL is required and one of them cannot use it.
void cluster::impl::connect_devices(world& job,
                                    const replica_group_options& group_options,
                                    peer_table::clock::time_point deadline) {
  const auto& wanted = nccl_.options();
  uses_nccl = false;
  if (wanted.policy == device_sum_policy::never || !job.backend)
    return;
  const bool is_required = wanted.policy == device_sum_policy::required;
  job.device_channels = std::make_shared<communicator_channels>(
    peers_of(job), job.view_id,
    channel_of_view(job.view_id, communicator_channel),
    [peers = peers_] { peers->update([] {}); });
  auto [own, ranks] =
    nccl_.make(job.backend->replica_placement(), job.device_channels,
               group_options.step_timeout);
  job.device_channels->send(own);
  if (wanted.devices.empty())
    return; // the others know it from this offer
  const auto offers =
    wait_for_offers(*job.device_channels, job.view_id, deadline);
  if (offers.empty())
    return;
  const auto refusal = why_not_nccl(offers);
  if (refusal.empty()) {
    job.ranks = std::move(ranks);
    uses_nccl = true;
    return;
  }
  if (is_required && job.view_id == 1 && !options.join_running_job)
    fail(ec::invalid, refusal + ", or let the host add the sums");
  if ((is_required || job.view_id > 1) && options.log)
    options.log(net::severity::warning, "the host adds the sums of view "
                                          + std::to_string(job.view_id) + ": "
                                          + refusal);
}

/// Waits for the offers of all processes of a view that host replicas. Empty:
/// the view is being changed.
std::vector<named_offer>
cluster::impl::wait_for_offers(const communicator_channels& channels,
                               std::uint64_t view_id,
                               peer_table::clock::time_point deadline) {
  std::unique_lock hold{peers_->lock};
  peers_->wait(hold, deadline, [&] {
    return channels.offers() || peers_->failed || is_outdated(view_id);
  });
  throw_if_failed(hold);
  const bool is_changing = is_outdated(view_id);
  hold.unlock();
  auto out = channels.offers();
  if (!out && is_changing)
    return {};
  if (!out)
    fail(ec::stalled, "not all processes have told " + own_name()
                        + " in time which device they have");
  return *out;
}

} // namespace troupe

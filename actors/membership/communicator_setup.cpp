#include "troupe/actors/collectives/nccl/nccl_rank.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"

#include <algorithm>
#include <utility>

// How the processes of a view agree whether NCCL adds their sums.

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Returns the processes that host replicas, which have the ranks.
std::vector<communicator_channels::peer> ranks_of(const world& job) {
  std::vector<communicator_channels::peer> out;
  for (std::uint32_t p = 0; p < job.processes(); ++p)
    if (!job.placement.job.replicas_of(p).empty())
      out.push_back({job.names[p], p == job.placement.process
                                     ? nullptr
                                     : job.connections[p]});
  return out;
}

nccl_options options_of(const replica_group_options& group_options) {
  nccl_options out;
  out.initialize_timeout = group_options.step_timeout;
  // The chief notices a step that is late first, and knows more.
  out.operation_timeout = 2 * group_options.step_timeout;
  out.finalize_timeout = 1000ms;
  out.error_report_delay = std::min<std::chrono::milliseconds>(
    out.error_report_delay, group_options.step_timeout / 4);
  out.close_timeout = 2000ms;
  return out;
}

} // namespace

/// Makes the rank of this process in a view, if all processes with replicas can
/// use NCCL. The rank is made before its offer is sent, so that the others hear
/// of a failure of CUDA.
/// @errors throws `job_error`: an offer is missing. In the first view also if
///         NCCL is required and one of them cannot use it.
void cluster::impl::connect_devices(world& job,
                                    const replica_group_options& group_options,
                                    peer_table::clock::time_point deadline) {
  const auto& wanted = options.device_sums;
  uses_nccl = false;
  if (wanted.policy == device_sum_policy::never || !job.backend)
    return;
  const bool is_required = wanted.policy == device_sum_policy::required;
  job.device_channels = std::make_shared<communicator_channels>(
    ranks_of(job), job.view_id,
    channel_of_view(job.view_id, communicator_channel),
    [peers = peers_] { peers->update([] {}); });
  auto [own, rank] = make_offer(job, group_options);
  job.device_channels->send(own);
  if (!wanted.device)
    return; // the others know it from this offer
  const auto offers =
    wait_for_offers(*job.device_channels, job.view_id, deadline);
  if (offers.empty())
    return;
  const auto refusal = why_not_nccl(offers);
  if (refusal.empty()) {
    job.rank = std::move(rank);
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

/// Returns the offer of this process, and its rank. The rank is null if the
/// process offers no device: it has none, a call of CUDA has failed, or NCCL
/// has failed earlier where it is not required.
std::pair<device_offer, std::shared_ptr<nccl_rank>>
cluster::impl::make_offer(const world& job,
                          const replica_group_options& group_options) {
  const auto& wanted = options.device_sums;
  const bool is_required = wanted.policy == device_sum_policy::required;
  if (const std::lock_guard hold{nccl_failure_->lock};
      !nccl_failure_->text.empty())
    return {{{}, {}, nccl_failure_->text}, nullptr};
  if (!wanted.device)
    return {make_device_offer(wanted), nullptr};
  auto nccl = options_of(group_options);
  if (!is_required)
    nccl.on_failure = [into = nccl_failure_](const auto& failure) {
      if (failure.code != ec::protocol) // which the program has caused
        into->set(failure.cause);
    };
  try {
    return {make_device_offer(wanted),
            std::make_shared<nccl_rank>(job.backend->replica_placement(),
                                        wanted.device, job.device_channels,
                                        nccl)};
  } catch (const device_error& e) {
    if (!is_required)
      nccl_failure_->set(e.what());
    return {{{}, {}, e.what()}, nullptr};
  }
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

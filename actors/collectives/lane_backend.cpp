#include "troupe/actors/collectives/lane_backend_impl.hpp"
#include "troupe/actors/core/close_code.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

/// The processes that host replicas. Only they take part in collectives, which
/// number them from 0.
struct hosting_processes {
  hosting_processes(const local_placement& job, std::vector<peer_lanes> all,
                    const counts_by_process& all_counts) {
    if (all.size() != job.job.processes())
      throw std::logic_error(std::to_string(all.size()) + " sets of lanes for "
                             + std::to_string(job.job.processes())
                             + " processes");
    std::vector<placement::id_list> replicas;
    for (std::uint32_t p = 0; p < job.job.processes(); ++p) {
      if (job.job.replicas_of(p).empty())
        continue;
      if (p == job.process)
        collective_placement.process = std::uint32_t(replicas.size());
      replicas.push_back(job.job.replicas_of(p));
      lanes.push_back(std::move(all[p]));
      if (!all_counts.empty())
        counts.push_back(all_counts.at(p));
      numbers.push_back(p);
    }
    if (job.count() == 0)
      throw std::logic_error("process " + std::to_string(job.process)
                             + " takes part in collectives without a replica");
    collective_placement.job = placement{std::move(replicas)};
  }

  local_placement collective_placement;
  std::vector<peer_lanes> lanes;
  counts_by_process counts;
  std::vector<std::uint32_t> numbers; ///< Number of each one in the job.
};

} // namespace

lane_backend::impl::impl(const local_placement& job_placement,
                         std::vector<peer_lanes> lanes_by_process,
                         const lane_backend_options& backend_options)
  : impl{hosting_processes{job_placement, std::move(lanes_by_process),
                           backend_options.counts},
         backend_options} {}

template <class Processes>
lane_backend::impl::impl(Processes&& hosts,
                         const lane_backend_options& backend_options)
  : options{backend_options},
    machine{hosts.collective_placement},
    transport{hosts.collective_placement, std::move(hosts.lanes),
              backend_options.faults,     backend_options.now,
              std::move(hosts.counts),    backend_options.loss_timeout},
    process_numbers{std::move(hosts.numbers)} {
  const auto& placement = machine.replica_placement();
  for (std::uint32_t p = 0; p < placement.job.processes(); ++p)
    if (p != placement.process)
      for (const auto lane_id : collective::lane_ids)
        lanes.push_back(&transport.lane_of(p, lane_id));
}

lane_backend::lane_backend(const local_placement& placement,
                           std::vector<peer_lanes> lanes,
                           const lane_backend_options& options)
  : impl_{std::make_unique<impl>(placement, std::move(lanes), options)} {}

lane_backend::~lane_backend() = default;

const local_placement& lane_backend::replica_placement() const {
  return impl_->machine.replica_placement();
}

bool lane_backend::blocks() const {
  return !impl_->options.wake;
}

// -- failures -----------------------------------------------------------------

std::optional<lane_backend::peer_failure>
lane_backend::impl::check_for_failure() {
  if (const auto& x = machine.error())
    return peer_failure{process_numbers[x->process], ec::protocol, x->reason};
  // A violation of the protocol may follow the end of another lane.
  const auto is_final = [this] {
    return failure && failure->code == ec::protocol;
  };
  const auto& placement = machine.replica_placement();
  for (std::uint32_t p = 0; !is_final() && p < placement.job.processes(); ++p)
    if (p != placement.process)
      for (const auto lane_id : collective::lane_ids)
        if (const auto& end = transport.closed(p, lane_id))
          if (const auto code = close_code(end->cause);
              !failure || (!is_final() && code == ec::protocol))
            failure = {process_numbers[p], code, end->reason};
  return failure;
}

std::optional<lane_backend::peer_failure> lane_backend::failure() {
  const impl::unique_lock locked{impl_->lock};
  return impl_->check_for_failure();
}

/// Makes progress on a thread that is not the driver. Then wakes the driver if
/// it sleeps, because the driver must process the new state.
/// @param completed number of completed operations before a call of a replica.
///        In a job of one process, the last call completes a gather.
void lane_backend::impl::progress_for_others(std::uint64_t completed) {
  if (completed != machine.completed())
    notify();
  while (make_progress()) {
  }
  if (driver_sleeps)
    net::notify(notifier.descriptor());
}

// -- calls of the replicas ----------------------------------------------------

void lane_backend::begin_generation(std::uint32_t replica,
                                    std::uint64_t generation) {
  const impl::unique_lock locked{impl_->lock};
  impl_->machine.begin_generation(replica, generation);
  impl_->notify();
}

void lane_backend::begin_step(std::uint32_t replica, std::uint64_t step) {
  const impl::unique_lock locked{impl_->lock};
  impl_->machine.begin_step(replica, step);
}

void lane_backend::end_step(std::uint32_t replica) {
  const impl::unique_lock locked{impl_->lock};
  impl_->machine.end_step(replica);
}

void lane_backend::contribute(std::uint32_t replica, std::uint32_t bucket,
                              const tensor& contribution,
                              const collective_options& options,
                              collective::output_placement output) {
  const impl::unique_lock locked{impl_->lock};
  const auto completed = impl_->machine.completed();
  impl_->machine.contribute(replica, bucket, contribution, options, output);
  impl_->progress_for_others(completed);
}

void lane_backend::gather(std::uint32_t replica, std::uint32_t bucket,
                          const tensor& contribution,
                          const collective_options& options) {
  const impl::unique_lock locked{impl_->lock};
  const auto completed = impl_->machine.completed();
  impl_->machine.gather(replica, bucket, contribution, options);
  impl_->progress_for_others(completed);
}

bool lane_backend::is_current(std::uint32_t replica) {
  const impl::unique_lock locked{impl_->lock};
  return impl_->machine.is_current(replica);
}

tensor lane_backend::sum_of(std::uint32_t replica, std::uint32_t bucket) {
  const impl::unique_lock locked{impl_->lock};
  return impl_->machine.sum_of(replica, bucket);
}

tensors lane_backend::gathered(std::uint32_t replica, std::uint32_t bucket) {
  const impl::unique_lock locked{impl_->lock};
  return impl_->machine.gathered(replica, bucket);
}

std::optional<std::uint32_t>
lane_backend::first_incomplete(std::uint32_t replica) {
  const impl::unique_lock locked{impl_->lock};
  return impl_->machine.first_incomplete(replica);
}

std::optional<collective::missing_inputs>
lane_backend::missing_inputs(std::uint64_t step) {
  const impl::unique_lock locked{impl_->lock};
  impl_->make_progress();
  return impl_->machine.missing(step);
}

std::vector<std::uint32_t> lane_backend::pending_receivers() {
  const impl::unique_lock locked{impl_->lock};
  std::vector<std::uint32_t> out;
  const auto& placement = replica_placement().job;
  for (std::uint32_t p = 0; p < placement.processes(); ++p)
    if (!impl_->transport.flush(p))
      out.insert(out.end(), placement.replicas_of(p).begin(),
                 placement.replicas_of(p).end());
  std::ranges::sort(out);
  return out;
}

} // namespace troupe

#include "troupe/actors/collectives/lane_backend_impl.hpp"
#include "troupe/strategies/step_commit/stall_report.hpp"

namespace troupe {

data_plane::impl::impl(const exchange::layout& at,
                       std::vector<peer_lanes> given,
                       const data_plane_options& x)
  : options{x}, machine{at}, courier{at, std::move(given), x.faults, x.now} {
  for (std::uint32_t p = 0; p < at.processes(); ++p)
    if (p != at.me)
      for (const auto by : {exchange::queue::parts, exchange::queue::sums})
        lanes.push_back(&courier.of(p, by));
}

data_plane::data_plane(const exchange::layout& at,
                       std::vector<peer_lanes> lanes,
                       const data_plane_options& options)
  : impl_{std::make_unique<impl>(at, std::move(lanes), options)} {}

data_plane::~data_plane() = default;

const exchange::layout& data_plane::at() const {
  return impl_->machine.at();
}

bool data_plane::sleeps() const {
  return !impl_->options.wake;
}

// -- failures -----------------------------------------------------------------

void data_plane::impl::name(std::uint32_t process, net::ending how,
                            const std::string& why) {
  if (!gone)
    gone = told_of(process, how, why);
}

data_plane::trouble data_plane::impl::told_of(std::uint32_t process,
                                              net::ending how,
                                              const std::string& why) const {
  const auto& at = machine.at();
  std::vector<std::uint32_t> ids;
  for (auto r = at.first[process]; r < at.first[process + 1]; ++r)
    ids.push_back(r);
  const auto what = how == net::ending::dead     ? " was lost: "
                    : how == net::ending::silent ? " is unreachable: "
                                                 : " violated the protocol: ";
  const auto called = process < options.names.size()
                        ? options.names[process]
                        : "process " + std::to_string(process);
  return {process, how,
          called + " (" + commit::replicas_named(ids) + ")" + what + why};
}

std::optional<data_plane::trouble> data_plane::impl::look_for_trouble() {
  if (const auto& x = machine.wrong())
    return told_of(x->process, net::ending::broken, x->why);
  for (std::uint32_t p = 0; !gone && p < machine.at().processes(); ++p)
    if (p != machine.at().me)
      for (const auto by : {exchange::queue::parts, exchange::queue::sums})
        if (const auto& end = courier.of(p, by).ended())
          name(p, end->how, end->why);
  return gone;
}

std::optional<data_plane::trouble> data_plane::troubled() {
  const impl::hold locked{impl_->lock};
  return impl_->look_for_trouble();
}

/// Makes progress on a thread that is not the driver, and wakes a sleeping
/// driver so that it processes the new state.
void data_plane::impl::moved_by_others() {
  while (move()) {
  }
  if (asleep)
    net::ring(alarm.descriptor());
}

// -- calls of the replicas ----------------------------------------------------

void data_plane::seat(std::uint32_t replica, std::uint64_t epoch) {
  const impl::hold locked{impl_->lock};
  impl_->machine.seat(replica, epoch);
  impl_->tell();
}

void data_plane::enter(std::uint32_t replica, std::uint64_t step) {
  const impl::hold locked{impl_->lock};
  impl_->machine.enter(replica, step);
}

void data_plane::leave(std::uint32_t replica) {
  const impl::hold locked{impl_->lock};
  impl_->machine.leave(replica);
}

void data_plane::contribute(std::uint32_t replica, std::uint32_t bucket,
                            const tensor& part, const terms& said,
                            exchange::room of_sum) {
  const impl::hold locked{impl_->lock};
  impl_->machine.contribute(replica, bucket, part, said, of_sum);
  impl_->moved_by_others();
}

void data_plane::gather(std::uint32_t replica, std::uint32_t bucket,
                        const tensor& part, const terms& said) {
  const impl::hold locked{impl_->lock};
  impl_->machine.gather(replica, bucket, part, said);
  impl_->moved_by_others();
}

bool data_plane::current(std::uint32_t replica) {
  const impl::hold locked{impl_->lock};
  return impl_->machine.current(replica);
}

tensor data_plane::sum_of(std::uint32_t replica, std::uint32_t bucket) {
  const impl::hold locked{impl_->lock};
  return impl_->machine.sum_of(replica, bucket);
}

tensors data_plane::gathered(std::uint32_t replica, std::uint32_t bucket) {
  const impl::hold locked{impl_->lock};
  return impl_->machine.gathered(replica, bucket);
}

std::uint32_t data_plane::incomplete(std::uint32_t replica) {
  const impl::hold locked{impl_->lock};
  return impl_->machine.incomplete(replica);
}

std::optional<exchange::lack> data_plane::lacking(std::uint64_t step) {
  const impl::hold locked{impl_->lock};
  impl_->move();
  return impl_->machine.lacking(step);
}

std::vector<std::uint32_t> data_plane::unread() {
  const impl::hold locked{impl_->lock};
  std::vector<std::uint32_t> out;
  for (std::uint32_t p = 0; p < at().processes(); ++p)
    if (!impl_->courier.flush(p))
      for (auto r = at().first[p]; r < at().first[p + 1]; ++r)
        out.push_back(r);
  return out;
}

} // namespace troupe

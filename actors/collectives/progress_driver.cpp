#include "troupe/actors/collectives/lane_backend_impl.hpp"
#include "troupe/actors/core/cpu_relax.hpp"

#include <ctime>
#include <thread>

// How threads wait in a lane backend. One waiting thread at a time, the driver,
// makes progress. The other threads wait until the driver notifies them.

namespace troupe {

namespace {

using clock = std::chrono::steady_clock; // the simulator does not poll

/// Maximum number of calls of `machine.progress` in one call of
/// `make_progress`. The limit makes the waiting thread check its condition in
/// between.
constexpr int max_packets_per_lock = 16;
/// Time for which a polling thread keeps its core before it begins to yield.
constexpr std::chrono::microseconds min_yield_delay{50};

/// Yields the core. @returns false if another thread seems to have used the
/// core.
bool core_is_idle(clock::time_point now) {
  constexpr std::chrono::microseconds max_idle_yield{
    500}; // a longer yield means that another thread ran
  std::this_thread::yield();
  return clock::now() < now + max_idle_yield;
}

void wait_for_events(std::vector<pollfd>& watched,
                     std::chrono::nanoseconds timeout) {
  const auto ns = timeout.count();
  const timespec span{ns / 1'000'000'000, ns % 1'000'000'000};
  ::ppoll(watched.data(), watched.size(), &span, nullptr);
}

} // namespace

bool lane_backend::impl::holds(std::uint32_t replica,
                               const wait_condition& condition) {
  if (!machine.is_current(replica))
    return false;
  switch (condition.event) {
    case wait_condition::kind::sum:
      return static_cast<bool>(machine.sum_of(replica, condition.bucket));
    case wait_condition::kind::gather:
      return !machine.gathered(replica, condition.bucket).empty();
    case wait_condition::kind::complete:
      return machine.is_complete(replica);
    case wait_condition::kind::drained:
      break;
  }
  return machine.is_drained(replica) && flush();
}

/// Sends queued packets. When all have left this process and no peer reads a
/// zero-copy buffer any more, releases these buffers.
/// @returns true if it has released the buffers.
bool lane_backend::impl::flush() {
  if (!transport.flush())
    return false;
  machine.release_zero_copy();
  return true;
}

/// Sends and receives a limited number of packets, and adds their chunks.
/// Notifies waiting threads if a collective completed or failed.
/// @returns true if there may be more packets to send or receive.
bool lane_backend::impl::make_progress() {
  const auto before = machine.completed();
  int n = 0;
  while (n < max_packets_per_lock && machine.progress(transport))
    ++n;
  flush();
  if (before != machine.completed() || machine.error()
      || (options.wake && n > 0))
    notify();
  return n == max_packets_per_lock;
}

void lane_backend::impl::notify() {
  if (followers > 0)
    progressed.notify_all();
  if (driver_sleeps)
    net::notify(notifier.descriptor());
  if (options.wake)
    options.wake();
}

/// Processes all packets that have arrived, if a peer has failed.
/// @returns true if a peer has failed and `condition` still does not hold.
bool lane_backend::impl::has_failed(std::uint32_t replica,
                                    const wait_condition& condition) {
  if (!check_for_failure())
    return false;
  while (make_progress()) {
  }
  return !holds(replica, condition);
}

// -- waiting ------------------------------------------------------------------

lane_backend::wait_status lane_backend::wait(std::uint32_t replica,
                                             const wait_condition& condition,
                                             bool blocking) {
  impl::unique_lock locked{impl_->lock};
  while (impl_->make_progress() && !impl_->holds(replica, condition)) {
  }
  if (impl_->holds(replica, condition))
    return impl_->on_ready();
  if (impl_->has_failed(replica, condition))
    return wait_status::failed;
  if (!blocking || !blocks())
    return impl_->holds(replica, condition) ? impl_->on_ready()
                                            : wait_status::pending;
  if (impl_->has_driver || !impl_->machine.is_current(replica)) {
    ++impl_->followers;
    impl_->progressed.wait_for(locked, impl_->options.max_sleep);
    --impl_->followers;
    if (impl_->holds(replica, condition))
      return impl_->on_ready();
    if (impl_->has_failed(replica, condition))
      return wait_status::failed;
    if (impl_->has_driver || !impl_->machine.is_current(replica))
      return wait_status::pending;
  }
  return impl_->drive(locked, replica, condition);
}

/// Ends a wait whose condition holds.
lane_backend::wait_status lane_backend::impl::on_ready() {
  last_poll_failed = false;
  return wait_status::ready;
}

/// Makes this thread the driver while the object exists. Its destructor lets
/// another waiting thread become the driver.
struct lane_backend::impl::driver_scope {
  explicit driver_scope(impl& backend) : backend{backend} {
    backend.has_driver = true;
  }
  ~driver_scope() {
    backend.has_driver = false;
    if (backend.followers > 0)
      backend.progressed.notify_all();
  }
  impl& backend;
};

lane_backend::wait_status
lane_backend::impl::drive(unique_lock& locked, std::uint32_t replica,
                          const wait_condition& condition) {
  {
    const driver_scope driver{*this};
    if (!last_poll_failed)
      poll(locked, replica, condition);
    if (!holds(replica, condition) && !machine.error()) {
      last_poll_failed = options.shares_cores;
      sleep(locked);
      while (make_progress() && !holds(replica, condition)) {
      }
    }
  }
  if (holds(replica, condition))
    return on_ready();
  return has_failed(replica, condition) ? wait_status::failed
                                        : wait_status::pending;
}

/// Polls the lanes for at most `spin_timeout`. After `min_yield_delay` the
/// driver yields the core before each poll. It stops polling as soon as another
/// thread has used the core. The driver should then sleep: the system runs a
/// woken thread sooner than a thread that yields. If the threads share cores,
/// the driver yields from the first poll on until `spin_timeout` has elapsed.
/// The awaited thread may be ready to run on this core.
void lane_backend::impl::poll(unique_lock& locked, std::uint32_t replica,
                              const wait_condition& condition) {
  const auto begin = clock::now();
  bool core_idle = true;
  for (auto now = begin; core_idle && now < begin + options.spin_timeout;
       now = clock::now()) {
    locked.unlock();
    if (options.shares_cores)
      std::this_thread::yield();
    else if (now < begin + min_yield_delay)
      cpu_relax();
    else
      core_idle = core_is_idle(now);
    locked.lock();
    while (make_progress() && !holds(replica, condition)) {
    }
    if (holds(replica, condition) || machine.error())
      return;
  }
}

/// Sleeps until a lane has an event, another thread notifies the driver, or
/// `max_sleep` has elapsed.
void lane_backend::impl::sleep(unique_lock& locked) {
  watched.clear();
  watched.push_back({notifier.wait_descriptor(), POLLIN, 0});
  notifier.arm();
  std::size_t armed = 0;
  bool has_event = failure.has_value() || machine.error();
  while (!has_event && armed < lanes.size())
    has_event = !lanes[armed++]->arm(watched);
  if (!has_event) {
    driver_sleeps = true;
    locked.unlock();
    wait_for_events(watched, options.max_sleep);
    locked.lock();
    driver_sleeps = false;
  }
  notifier.clear();
  for (std::size_t i = 0; i < armed; ++i)
    lanes[i]->disarm();
}

} // namespace troupe

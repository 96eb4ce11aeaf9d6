#include "troupe/actors/collectives/lane_backend_impl.hpp"

#include <ctime>
#include <thread>

// Waiting for a lane backend: one waiting thread at a time, the driver, makes
// progress; the others wait until it notifies them.

namespace troupe {

namespace {

using clock = std::chrono::steady_clock; // lanes are not simulated

/// Number of packets that are moved before other threads may take the lock.
constexpr int at_a_time = 16;
/// Time for which polling does not yield the core.
constexpr std::chrono::microseconds selfish{50};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Yields the core. @returns false if another thread seems to have used it.
bool nobody_took(clock::time_point now) {
  constexpr std::chrono::microseconds taken{
    500}; // a longer yield means that another thread ran
  std::this_thread::yield();
  return clock::now() < now + taken;
}

void sleep_on(std::vector<pollfd>& watched, std::chrono::nanoseconds most) {
  const auto ns = most.count();
  const timespec span{ns / 1'000'000'000, ns % 1'000'000'000};
  ::ppoll(watched.data(), watched.size(), &span, nullptr);
}

} // namespace

bool data_plane::impl::granted(std::uint32_t replica, const wish& x) {
  if (!machine.current(replica))
    return false;
  switch (x.what) {
    case wish::kind::sum:
      return static_cast<bool>(machine.sum_of(replica, x.bucket));
    case wish::kind::gather:
      return !machine.gathered(replica, x.bucket).empty();
    case wish::kind::complete:
      return machine.complete(replica);
    case wish::kind::settled:
      break;
  }
  return machine.settled(replica) && flush();
}

/// Sends queued packets, and releases zero-copy buffers once all are sent.
/// @returns true if no sent packet is left in this process and no peer reads a
///          zero-copy buffer any more.
bool data_plane::impl::flush() {
  if (!courier.flush())
    return false;
  machine.given_back();
  return true;
}

/// Moves some packets, and notifies waiting threads if a
/// collective completed or failed.
/// @returns true if there may be more to move.
bool data_plane::impl::move() {
  const auto before = machine.completed();
  int n = 0;
  while (n < at_a_time && machine.pump(courier))
    ++n;
  flush();
  if (before != machine.completed() || machine.wrong()
      || (options.wake && n > 0))
    tell();
  return n == at_a_time;
}

void data_plane::impl::tell() {
  if (followers > 0)
    told.notify_all();
  if (asleep)
    net::ring(alarm.descriptor());
  if (options.wake)
    options.wake();
}

/// True if a peer has failed and the packets that arrived before do not make
/// the condition hold.
bool data_plane::impl::stuck(std::uint32_t replica, const wish& x) {
  if (!look_for_trouble())
    return false;
  while (move()) {
  }
  return !granted(replica, x);
}

// -- waiting ------------------------------------------------------------------

data_plane::news data_plane::wait(std::uint32_t replica, const wish& x,
                                  bool patient) {
  impl::hold locked{impl_->lock};
  while (impl_->move() && !impl_->granted(replica, x)) {
  }
  if (impl_->granted(replica, x))
    return news::granted;
  if (impl_->stuck(replica, x))
    return news::troubled;
  if (!patient || !sleeps())
    return impl_->granted(replica, x) ? news::granted : news::waiting;
  if (impl_->driven || !impl_->machine.current(replica)) {
    ++impl_->followers;
    impl_->told.wait_for(locked, impl_->options.nap);
    --impl_->followers;
    if (impl_->granted(replica, x))
      return news::granted;
    if (impl_->stuck(replica, x))
      return news::troubled;
    if (impl_->driven || !impl_->machine.current(replica))
      return news::waiting;
  }
  return impl_->drive(locked, replica, x);
}

/// Makes this thread the driver. At the end of the scope another waiting thread
/// may become the driver.
struct data_plane::impl::turn {
  explicit turn(impl& of) : of{of} { of.driven = true; }
  ~turn() {
    of.driven = false;
    if (of.followers > 0)
      of.told.notify_all();
  }
  impl& of;
};

data_plane::news data_plane::impl::drive(hold& locked, std::uint32_t replica,
                                         const wish& x) {
  {
    const turn mine{*this};
    poll(locked, replica, x);
    if (!granted(replica, x) && !machine.wrong()) {
      sleep(locked);
      while (move() && !granted(replica, x)) {
      }
    }
  }
  if (granted(replica, x))
    return news::granted;
  return stuck(replica, x) ? news::troubled : news::waiting;
}

/// Polls for at most `spin_timeout`. After a short time it yields the core at
/// each poll, and stops if another thread used it: then sleeping is better, as
/// a sleeping thread is woken sooner than a yielding one is scheduled.
void data_plane::impl::poll(hold& locked, std::uint32_t replica,
                            const wish& x) {
  const auto begin = clock::now();
  bool alone = true;
  for (auto now = begin; alone && now < begin + options.polling;
       now = clock::now()) {
    locked.unlock();
    if (now < begin + selfish)
      relax();
    else
      alone = nobody_took(now);
    locked.lock();
    while (move() && !granted(replica, x)) {
    }
    if (granted(replica, x) || machine.wrong())
      return;
  }
}

/// Sleeps until a lane or another replica has an event, or `max_sleep` has
/// elapsed.
void data_plane::impl::sleep(hold& locked) {
  watched.clear();
  watched.push_back({alarm.listener(), POLLIN, 0});
  alarm.listen();
  std::size_t asked = 0;
  bool news = gone.has_value() || machine.wrong();
  while (!news && asked < lanes.size())
    news = !lanes[asked++]->before_sleep(watched);
  if (!news) {
    asleep = true;
    locked.unlock();
    sleep_on(watched, options.nap);
    locked.lock();
    asleep = false;
  }
  alarm.silence();
  for (std::size_t i = 0; i < asked; ++i)
    lanes[i]->after_sleep();
}

} // namespace troupe

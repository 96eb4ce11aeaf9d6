#include "troupe/actors/collectives/lane_backend_impl.hpp"

#include <ctime>
#include <thread>

// Who waits: one drives, the others wait until they are told.

namespace troupe {

namespace {

using clock = std::chrono::steady_clock; // a lane's time is the system's

/// Parcels between two chances for others to get at the machine.
constexpr int at_a_time = 16;
/// For so long a core is not even offered to others.
constexpr std::chrono::microseconds selfish{50};

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Offers the core to others.
bool nobody_took(clock::time_point now) {
  constexpr std::chrono::microseconds taken{
    500}; // by an offer that lasts longer
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

/// @returns whether all that was sent is out of this process's hands.
bool data_plane::impl::flush() {
  if (!courier.flush())
    return false;
  machine.given_back();
  return true;
}

/// Moves some parcels; tells whoever waits for what came of it.
/// @returns whether there may be more to move.
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

/// Whether what came before a lane's end is not enough.
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

/// The driver's; when it is over, somebody else goes on.
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

/// Looks again and again, for a bounded time; soon only while nobody else on
/// this core has anything to do: whoever sleeps is woken sooner than who waits
/// for his turn.
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

/// Until a lane or another replica has news, or the nap is over.
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

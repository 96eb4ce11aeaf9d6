#include "troupe/net/io/io_loop.hpp"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <time.h>
#include <utility>
#include <vector>

namespace troupe::net {

namespace {

namespace asio = boost::asio;
using error_code = boost::system::error_code;
using stream_descriptor = asio::posix::stream_descriptor;

/// Blocks all signals in the creating thread while the object exists. Threads
/// that this thread starts meanwhile inherit the blocked signals.
class signal_blocker {
public:
  signal_blocker() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signal_blocker() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signal_blocker(const signal_blocker&) = delete;
  signal_blocker& operator=(const signal_blocker&) = delete;

private:
  sigset_t before_;
};

/// Starts a thread that receives no signals.
std::thread start_without_signals(std::function<void()> fn) {
  const signal_blocker quiet;
  return std::thread{std::move(fn)};
}

} // namespace

struct io_loop::core {
  void run_posted() {
    {
      const std::lock_guard hold{lock};
      std::swap(running, posted);
    }
    for (auto& fn : running)
      fn();
    running.clear();
  }

  std::mutex lock; // guards `posted` and `stopped`
  std::vector<std::function<void()>> posted;
  bool stopped = false;
  /// Functions that are being run; for the loop's thread only.
  std::vector<std::function<void()>> running;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{
    context.get_executor()};
  std::thread thread;
};

io_loop::io_loop() : core_{std::make_unique<core>()} {
  core_->thread = start_without_signals([x = core_.get()] {
    pthread_setname_np(pthread_self(), "troupe-net");
    x->context.run();
  });
}

io_loop::~io_loop() {
  stop();
}

void io_loop::post(std::function<void()> fn) {
  {
    const std::lock_guard hold{core_->lock};
    if (core_->stopped)
      return;
    core_->posted.push_back(std::move(fn));
    if (core_->posted.size() > 1)
      return; // an earlier `post` has woken the loop
  }
  asio::post(core_->context, [x = core_.get()] { x->run_posted(); });
}

bool io_loop::is_loop_thread() const {
  return core_->context.get_executor().running_in_this_thread();
}

void io_loop::stop() {
  if (!core_->thread.joinable())
    return;
  core_->context.stop();
  core_->thread.join();
  // `dropped` is destroyed after the lock is released. One of its functions may
  // own the loop, and the destructor of the loop destroys the lock.
  std::vector<std::function<void()>> dropped;
  const std::lock_guard hold{core_->lock};
  core_->stopped = true;
  dropped.swap(core_->posted);
}

// -- descriptor_watcher -------------------------------------------------------

struct descriptor_watcher::state {
  state(io_loop::core& loop, int fd, std::function<void()> fn)
    : handle{loop.context, fd}, ready{std::move(fn)} {}

  static void wait(const std::shared_ptr<state>& self,
                   stream_descriptor::wait_type what, bool& waits) {
    if (std::exchange(waits, true))
      return;
    self->handle.async_wait(what, [self, &waits](const error_code& fault) {
      waits = false;
      if (!self->closed && fault != asio::error::operation_aborted)
        self->ready();
    });
  }

  stream_descriptor handle;
  std::function<void()> ready;
  bool reads = false, writes = false;
  bool closed = false;
};

descriptor_watcher::descriptor_watcher(io_loop& loop, int fd,
                                       std::function<void()> ready)
  : state_{std::make_shared<state>(*loop.core_, fd, std::move(ready))} {}

descriptor_watcher::~descriptor_watcher() {
  state_->closed = true;
  state_->handle.release();
}

void descriptor_watcher::async_wait_readable() {
  state::wait(state_, stream_descriptor::wait_read, state_->reads);
}

void descriptor_watcher::async_wait_writable() {
  state::wait(state_, stream_descriptor::wait_write, state_->writes);
}

// -- timer --------------------------------------------------------------------

struct timer::state {
  state(io_loop::core& loop, std::function<void()> fn)
    : handle{loop.context}, expired{std::move(fn)} {}

  asio::steady_timer handle;
  std::function<void()> expired;
  /// Number of calls of `expires_after` and `cancel`. A handler that was queued
  /// before the last of these calls does nothing.
  std::uint64_t times_set = 0;
};

timer::timer(io_loop& loop, std::function<void()> expired)
  : state_{std::make_shared<state>(*loop.core_, std::move(expired))} {}

timer::~timer() {
  cancel();
}

void timer::cancel() {
  ++state_->times_set;
  state_->handle.cancel();
}

void timer::expires_after(std::chrono::nanoseconds from_now) {
  const auto this_time = ++state_->times_set;
  state_->handle.expires_after(from_now);
  state_->handle.async_wait([x = state_, this_time](const error_code& fault) {
    if (x->times_set == this_time && !fault)
      x->expired();
  });
}

} // namespace troupe::net

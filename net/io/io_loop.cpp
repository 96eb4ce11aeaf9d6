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
using descriptor = asio::posix::stream_descriptor;

/// Blocks all signals in this thread and in threads that it starts, during the
/// object's lifetime.
class no_signals {
public:
  no_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~no_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;

private:
  sigset_t before_;
};

/// Starts a thread that receives no signals.
std::thread quiet_thread(std::function<void()> fn) {
  const no_signals quiet;
  return std::thread{std::move(fn)};
}

std::chrono::microseconds used_by(pthread_t thread) {
  clockid_t clock{};
  timespec used{};
  if (pthread_getcpuclockid(thread, &clock) != 0
      || clock_gettime(clock, &used) != 0)
    return {};
  return std::chrono::duration_cast<std::chrono::microseconds>(
    std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec});
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
  /// Used by the loop's thread only.
  std::vector<std::function<void()>> running;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{
    context.get_executor()};
  /// CPU time in microseconds, valid after the loop has stopped.
  std::atomic<std::chrono::microseconds::rep> used{0};
  std::thread thread;
};

io_loop::io_loop() : core_{std::make_unique<core>()} {
  core_->thread = quiet_thread([x = core_.get()] {
    pthread_setname_np(pthread_self(), "troupe-net");
    x->context.run();
    x->used = used_by(pthread_self()).count();
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
      return; // the loop was woken already
  }
  asio::post(core_->context, [x = core_.get()] { x->run_posted(); });
}

bool io_loop::here() const {
  return core_->context.get_executor().running_in_this_thread();
}

void io_loop::stop() {
  if (!core_->thread.joinable())
    return;
  core_->context.stop();
  core_->thread.join();
  // destroyed last: a function may own the loop
  std::vector<std::function<void()>> dropped;
  const std::lock_guard hold{core_->lock};
  core_->stopped = true;
  dropped.swap(core_->posted);
}

std::chrono::microseconds io_loop::cpu_time() const {
  return core_->thread.joinable() ? used_by(core_->thread.native_handle())
                                  : std::chrono::microseconds{core_->used};
}

// -- descriptor_watcher -------------------------------------------------------

struct watch::state {
  state(io_loop::core& by, int fd, std::function<void()> fn)
    : it{by.context, fd}, ready{std::move(fn)} {}

  static void wait(const std::shared_ptr<state>& x, descriptor::wait_type what,
                   bool& waits) {
    if (std::exchange(waits, true))
      return;
    x->it.async_wait(what, [x, &waits](const error_code& fault) {
      waits = false;
      if (!x->over && fault != asio::error::operation_aborted)
        x->ready();
    });
  }

  descriptor it;
  std::function<void()> ready;
  bool reads = false, writes = false;
  bool over = false;
};

watch::watch(io_loop& by, int fd, std::function<void()> ready)
  : state_{std::make_shared<state>(*by.core_, fd, std::move(ready))} {}

watch::~watch() {
  state_->over = true;
  state_->it.release();
}

void watch::until_readable() {
  state::wait(state_, descriptor::wait_read, state_->reads);
}

void watch::until_writable() {
  state::wait(state_, descriptor::wait_write, state_->writes);
}

// -- timer --------------------------------------------------------------------

struct alarm::state {
  state(io_loop::core& by, std::function<void()> fn)
    : it{by.context}, ring{std::move(fn)} {}

  asio::steady_timer it;
  std::function<void()> ring;
  /// Number of times that the timer was set; detects a handler that is already
  /// queued.
  std::uint64_t set = 0;
};

alarm::alarm(io_loop& by, std::function<void()> ring)
  : state_{std::make_shared<state>(*by.core_, std::move(ring))} {}

alarm::~alarm() {
  off();
}

void alarm::off() {
  ++state_->set;
  state_->it.cancel();
}

void alarm::in(std::chrono::nanoseconds from_now) {
  const auto this_time = ++state_->set;
  state_->it.expires_after(from_now);
  state_->it.async_wait([x = state_, this_time](const error_code& fault) {
    if (x->set == this_time && !fault)
      x->ring();
  });
}

} // namespace troupe::net

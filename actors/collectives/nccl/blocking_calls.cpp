#include "troupe/actors/collectives/nccl/blocking_calls.hpp"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe {

struct threaded_blocking_calls::running_calls {
  std::mutex lock;
  std::condition_variable ended;
  int count = 0;
};

threaded_blocking_calls::threaded_blocking_calls(
  std::chrono::milliseconds end_timeout)
  : end_timeout_{end_timeout}, running_{std::make_shared<running_calls>()} {}

threaded_blocking_calls::~threaded_blocking_calls() {
  std::unique_lock locked{running_->lock};
  running_->ended.wait_for(locked, end_timeout_,
                           [this] { return running_->count == 0; });
}

void threaded_blocking_calls::post(std::function<void()> call) {
  {
    const std::lock_guard locked{running_->lock};
    ++running_->count;
  }
  // The call owns all that it uses, so the thread may outlive this object.
  try {
    std::thread{[running = running_, call = std::move(call)]() mutable {
      call();
      call = nullptr; // destroys what it owns, which may block too
      const std::lock_guard locked{running->lock};
      --running->count;
      running->ended.notify_all();
    }}.detach();
  } catch (const std::system_error&) { // there is no thread for the call
    const std::lock_guard locked{running_->lock};
    --running_->count;
    throw;
  }
}

} // namespace troupe

#include "troupe/data/pipeline/prefetcher.hpp"

#include "troupe/tensors/context.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::data {

namespace {

/// Maximum time that the destructor waits for a thread that reads an element.
constexpr auto grace = std::chrono::seconds{1};

} // namespace

read_ahead::read_ahead(std::shared_ptr<const stage> of, const position& from,
                       std::uint64_t end, std::size_t count)
  : thread_{[on = desk_, of = std::move(of), from, end,
             count](const std::stop_token& stop) {
      read(stop, *on, *of, from, end, count);
    }} {}

read_ahead::~read_ahead() {
  thread_.request_stop();
  std::unique_lock hold{desk_->lock};
  if (!desk_->changed.wait_for(hold, grace, [&] { return desk_->ended; }))
    thread_.detach();
}

void read_ahead::read(const std::stop_token& stop, desk& on, const stage& of,
                      position at, std::uint64_t end, std::size_t count) {
  // The ops of a `map` run on one thread: the other cores train.
  use_threads(1);
  std::exception_ptr failed;
  try {
    for (; at.index < end; ++at.index) {
      {
        std::unique_lock hold{on.lock};
        if (!on.changed.wait(hold, stop,
                             [&] { return on.ready.size() < count; }))
          break;
      }
      auto element = of.read(at, stop);
      const std::lock_guard hold{on.lock};
      on.ready.push_back(std::move(element));
      on.changed.notify_all();
    }
  } catch (const abandoned&) {
  } catch (...) {
    failed = std::current_exception();
  }
  const std::lock_guard hold{on.lock};
  on.failed = std::move(failed);
  on.ended = true;
  on.changed.notify_all();
}

batch read_ahead::next(std::chrono::milliseconds patience) {
  std::unique_lock hold{desk_->lock};
  if (!desk_->changed.wait_for(
        hold, patience, [&] { return !desk_->ready.empty() || desk_->ended; }))
    throw std::runtime_error(
      "no element was ready within " + std::to_string(patience.count())
      + " ms: a map function hangs, or prefetch needs a longer timeout");
  if (desk_->ready.empty())
    std::rethrow_exception(desk_->failed);
  auto out = std::move(desk_->ready.front());
  desk_->ready.pop_front();
  desk_->changed.notify_all();
  return out;
}

bool read_ahead::ended() const {
  const std::lock_guard hold{desk_->lock};
  return desk_->ended && desk_->ready.empty();
}

} // namespace troupe::data

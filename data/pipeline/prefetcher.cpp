#include "troupe/data/pipeline/prefetcher.hpp"

#include "troupe/tensors/context.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::data {

namespace {

/// Maximum time that the destructor waits for a thread that reads an element.
constexpr auto shutdown_timeout = std::chrono::seconds{1};

} // namespace

std::string late_element_text(std::chrono::milliseconds timeout) {
  return "no element was ready within " + std::to_string(timeout.count())
         + " ms: a map function hangs, or prefetch needs a longer timeout";
}

prefetcher::prefetcher(std::shared_ptr<const stage> source,
                       const position& start, std::uint64_t end,
                       std::size_t count)
  : thread_{[output = buffer_, source = std::move(source), start, end,
             count](const std::stop_token& stop) {
      read(stop, *output, *source, start, end, count);
    }} {}

prefetcher::~prefetcher() {
  thread_.request_stop();
  std::unique_lock hold{buffer_->lock};
  if (!buffer_->changed.wait_for(hold, shutdown_timeout,
                                 [&] { return buffer_->ended; }))
    thread_.detach();
}

void prefetcher::read(const std::stop_token& stop, buffer& output,
                      const stage& source, position current, std::uint64_t end,
                      std::size_t count) {
  // The ops of a `map` run on one thread, because training uses the other
  // cores.
  use_threads(1);
  std::exception_ptr error;
  try {
    for (; current.index < end; ++current.index) {
      {
        std::unique_lock hold{output.lock};
        if (!output.changed.wait(hold, stop,
                                 [&] { return output.ready.size() < count; }))
          break;
      }
      auto element = source.read(current, stop);
      const std::lock_guard hold{output.lock};
      output.ready.push_back(std::move(element));
      output.changed.notify_all();
    }
  } catch (const read_cancelled&) {
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard hold{output.lock};
  output.error = std::move(error);
  output.ended = true;
  output.changed.notify_all();
}

batch prefetcher::next(std::chrono::milliseconds timeout) {
  std::unique_lock hold{buffer_->lock};
  if (!buffer_->changed.wait_for(hold, timeout, [&] {
        return !buffer_->ready.empty() || buffer_->ended;
      }))
    throw std::runtime_error(late_element_text(timeout));
  return take_ready(std::move(hold));
}

batch prefetcher::next(const std::stop_token& stop) {
  std::unique_lock hold{buffer_->lock};
  if (!buffer_->changed.wait(
        hold, stop, [&] { return !buffer_->ready.empty() || buffer_->ended; }))
    throw read_cancelled{};
  return take_ready(std::move(hold));
}

batch prefetcher::take_ready(std::unique_lock<std::mutex> /*hold*/) {
  if (buffer_->ready.empty())
    std::rethrow_exception(buffer_->error);
  auto out = std::move(buffer_->ready.front());
  buffer_->ready.pop_front();
  buffer_->changed.notify_all();
  return out;
}

bool prefetcher::ended() const {
  const std::lock_guard hold{buffer_->lock};
  return buffer_->ended && buffer_->ready.empty();
}

} // namespace troupe::data

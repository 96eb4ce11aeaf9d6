#pragma once

#include "troupe/data/pipeline/stage.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace troupe::data {

/// Returns what the error says if no element is ready within a timeout.
std::string late_element_text(std::chrono::milliseconds timeout);

/// Reads the next elements of an epoch in advance, on a thread of its own.
class prefetcher {
public:
  /// Reads elements [start.index, end) of an epoch. At most `count` elements
  /// are read in advance.
  prefetcher(std::shared_ptr<const stage> source, const position& start,
             std::uint64_t end, std::size_t count);

  /// Stops the thread. If the thread is still busy after 1 s, it is detached.
  ~prefetcher();
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;

  /// Returns the next element.
  /// @pre `next` has not returned all elements before `end`.
  /// @errors rethrows the exception that reading the element threw; the
  ///         prefetcher then has no further element. Throws std::runtime_error
  ///         after `timeout`.
  batch next(std::chrono::milliseconds timeout);

  /// Returns the next element, and waits for it without a timeout.
  /// @pre as for the other.
  /// @errors as the other. Throws `read_cancelled` if a stop is requested.
  batch next(const std::stop_token& stop);

  /// True if no element is left: the thread reached the end or failed, and
  /// `next` returned all elements that were ready.
  bool ended() const;

private:
  /// State shared with the thread, which may outlive this object.
  struct buffer {
    std::mutex lock;
    std::condition_variable_any changed;
    std::deque<batch> ready;
    /// Exception of the thread. `next` rethrows it after it has returned all
    /// ready elements.
    std::exception_ptr error;
    bool ended = false;
  };

  /// @param hold holds the lock of the buffer. The thread has an element or has
  ///        ended.
  batch take_ready(std::unique_lock<std::mutex> hold);
  static void read(const std::stop_token& stop, buffer& output,
                   const stage& source, position current, std::uint64_t end,
                   std::size_t count);

  std::shared_ptr<buffer> buffer_ = std::make_shared<buffer>();
  std::jthread thread_;
};

} // namespace troupe::data

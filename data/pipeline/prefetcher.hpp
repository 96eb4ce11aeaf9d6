#pragma once

#include "troupe/data/pipeline/stage.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>

namespace troupe::data {

/// Reads the next elements of an epoch in advance, on a thread of its own.
class read_ahead {
public:
  /// Reads elements [start.index, end) of an epoch, at most `count` ahead.
  read_ahead(std::shared_ptr<const stage> of, const position& from,
             std::uint64_t end, std::size_t count);

  /// Stops the thread. If the thread is still busy after 1 s, it is detached.
  ~read_ahead();
  read_ahead(const read_ahead&) = delete;
  read_ahead& operator=(const read_ahead&) = delete;

  /// Returns the next element.
  /// @pre there is one: not all up to `end` were returned.
  /// @errors rethrows the exception that reading the element threw; no element
  ///         follows it. Throws std::runtime_error after `timeout`.
  batch next(std::chrono::milliseconds patience);

  /// True if no element is left: the thread reached the end or failed, and
  /// `next` returned all elements that were ready.
  bool ended() const;

private:
  /// State shared with the thread, which may outlive this object.
  struct desk {
    std::mutex lock;
    std::condition_variable_any changed;
    std::deque<batch> ready;
    /// Rethrown after all ready elements were returned.
    std::exception_ptr failed;
    bool ended = false;
  };

  static void read(const std::stop_token& stop, desk& on, const stage& of,
                   position at, std::uint64_t end, std::size_t count);

  std::shared_ptr<desk> desk_ = std::make_shared<desk>();
  std::jthread thread_;
};

} // namespace troupe::data

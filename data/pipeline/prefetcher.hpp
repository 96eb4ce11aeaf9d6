#pragma once

#include "troupe/data/pipeline/stage.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>

namespace troupe::data {

/// Keeps the next elements of a pass ready, read by a thread.
class read_ahead {
public:
  /// Reads elements [from.index, end) of a pass, at most `count` ahead.
  read_ahead(std::shared_ptr<const stage> of, const position& from,
             std::uint64_t end, std::size_t count);

  /// Ends the thread; one that is still busy after 1 s is left behind.
  ~read_ahead();
  read_ahead(const read_ahead&) = delete;
  read_ahead& operator=(const read_ahead&) = delete;

  /// The next element. @pre there is one.
  /// @errors throws what reading it threw (then no other follows), and
  ///         std::runtime_error after `patience`.
  batch next(std::chrono::milliseconds patience);

  /// Whether the thread came to the end, or to what it could not read.
  bool ended() const;

private:
  /// Shared with the thread, which may outlive this object.
  struct desk {
    std::mutex lock;
    std::condition_variable_any changed;
    std::deque<batch> ready;
    std::exception_ptr failed; ///< Comes after all that is ready.
    bool ended = false;
  };

  static void read(const std::stop_token& stop, desk& on, const stage& of,
                   position at, std::uint64_t end, std::size_t count);

  std::shared_ptr<desk> desk_ = std::make_shared<desk>();
  std::jthread thread_;
};

} // namespace troupe::data

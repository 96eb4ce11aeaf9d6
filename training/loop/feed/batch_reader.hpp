#pragma once

#include "troupe/tensors/device.hpp"
#include "troupe/training/strategies/replica/local_batches.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace troupe {

/// Reads the rows of this process one batch in advance, on a thread of its own.
/// Puts the rows into memory of the host from which copies to a device are
/// faster.
class batch_reader {
public:
  /// @param kind of the device.
  /// @param timeout of `next`.
  batch_reader(local_batches source, device_kind kind,
               std::chrono::milliseconds timeout);

  /// Stops the thread. If the thread is still busy after 1 s, it is detached.
  ~batch_reader();
  batch_reader(const batch_reader&) = delete;
  batch_reader& operator=(const batch_reader&) = delete;

  /// Returns the rows of the next batch. None: the epoch has ended. The timeout
  /// begins with this call: the time that the thread has waited for the dataset
  /// before does not count.
  /// @errors as `local_batches::next`. After an error of the dataset each call
  ///         throws it; after a timeout, the next call waits again.
  std::optional<local_batch> next();

  /// True if `next` would return rows without waiting.
  bool is_ready() const;

private:
  /// State shared with the thread, which may outlive this object.
  struct buffer {
    std::mutex lock;
    std::condition_variable_any changed;
    std::optional<local_batch> ready;
    std::exception_ptr error; ///< Error of the thread.
    bool has_ended = false;   ///< The thread reads nothing more.
  };

  static void read(const std::stop_token& stop, buffer& output,
                   local_batches& source, device_kind kind);

  const std::chrono::milliseconds timeout_;
  std::shared_ptr<buffer> buffer_ = std::make_shared<buffer>();
  std::jthread thread_;
};

} // namespace troupe

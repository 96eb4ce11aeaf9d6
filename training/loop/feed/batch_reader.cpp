#include "troupe/training/loop/feed/batch_reader.hpp"

#include "troupe/data/pipeline/prefetcher.hpp"
#include "troupe/tensors/context.hpp"

#include <chrono>
#include <new>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// Maximum time that the destructor waits for a thread that reads a batch.
constexpr auto shutdown_timeout = std::chrono::seconds{1};

/// Returns the batch with its tensors in pinned memory, as far as the system
/// provides some. Tensors on a device stay there.
batch in_pinned_memory(const batch& rows, device_kind kind) {
  return transform_tensors(rows, [&](const tensor& x) {
    if (x.device().kind != device_kind::cpu || x.bytes() == 0)
      return x;
    try {
      auto out = tensor::pinned(x.spec(), kind);
      out.copy_from(x);
      return out;
    } catch (const std::bad_alloc&) { // the copies take longer
      return x;
    }
  });
}

} // namespace

batch_reader::batch_reader(local_batches source, device_kind kind,
                           std::chrono::milliseconds timeout)
  : timeout_{timeout},
    thread_{[output = buffer_, source = std::move(source),
             kind](const std::stop_token& stop) mutable {
      read(stop, *output, source, kind);
    }} {}

batch_reader::~batch_reader() {
  thread_.request_stop();
  std::unique_lock hold{buffer_->lock};
  if (!buffer_->changed.wait_for(hold, shutdown_timeout,
                                 [&] { return buffer_->has_ended; }))
    thread_.detach();
}

void batch_reader::read(const std::stop_token& stop, buffer& output,
                        local_batches& source, device_kind kind) {
  use_threads(1);
  std::exception_ptr error;
  try {
    for (;;) {
      {
        std::unique_lock hold{output.lock};
        if (!output.changed.wait(hold, stop, [&] { return !output.ready; }))
          break;
      }
      auto rows = source.next(stop);
      if (!rows)
        break;
      rows->first.rows = in_pinned_memory(rows->first.rows, kind);
      for (auto& one : rows->more)
        one.rows = in_pinned_memory(one.rows, kind);
      const std::lock_guard hold{output.lock};
      output.ready = std::move(rows);
      output.changed.notify_all();
    }
  } catch (const data::read_cancelled&) {
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard hold{output.lock};
  output.error = std::move(error);
  output.has_ended = true;
  output.changed.notify_all();
}

std::optional<local_batch> batch_reader::next() {
  std::unique_lock hold{buffer_->lock};
  if (!buffer_->changed.wait_for(
        hold, timeout_, [&] { return buffer_->ready || buffer_->has_ended; }))
    throw std::runtime_error(data::late_element_text(timeout_));
  if (!buffer_->ready && buffer_->error)
    std::rethrow_exception(buffer_->error);
  auto out = std::exchange(buffer_->ready, std::nullopt);
  buffer_->changed.notify_all();
  return out;
}

bool batch_reader::is_ready() const {
  const std::lock_guard hold{buffer_->lock};
  return buffer_->ready.has_value();
}

} // namespace troupe

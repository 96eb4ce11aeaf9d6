#include "troupe/net/session/stream_connection.hpp"

#include <utility>

namespace troupe::net {

namespace {

using status = stream::status;
/// Maximum size of one read in bytes.
constexpr std::size_t read_bytes = std::size_t{64} * 1024;
/// Maximum number of reads in one turn of the loop.
constexpr int max_reads_per_turn = 16;

} // namespace

stream_connection::stream_connection(std::shared_ptr<io_loop> loop,
                                     std::unique_ptr<stream> connected_stream,
                                     hello peer, const settings& options,
                                     on_closed_fn closed_fn)
  : loop_{std::move(loop)},
    peer_{std::move(peer)},
    settings_{options},
    on_closed_fn_{std::move(closed_fn)},
    failure_detector_{clock::now(), options.heartbeat_interval},
    stream_{std::move(connected_stream)},
    multiplexer_{options.limits} {}

stream_connection::~stream_connection() = default;

// -- the stream ---------------------------------------------------------------

void stream_connection::start() {
  try {
    const std::lock_guard hold{lock_};
    if (closed_)
      return;
    watcher_ = std::make_unique<descriptor_watcher>(
      *loop_, stream_->descriptor(), [this] { on_ready(); });
  } catch (const std::exception& e) {
    return terminate(close_reason::closed, e.what());
  }
  read_buffer_.resize(read_bytes);
  failure_detector_.tick(clock::now());
  on_ready(); // TLS may have read bytes ahead during the handshake
}

void stream_connection::on_ready() {
  const auto self = shared_from_this();
  std::optional<multiplexer::closed_state> end_state;
  {
    const std::lock_guard hold{lock_};
    if (closed_)
      return;
    blocked_on_ = status::ok;
    end_state = read();
    route_events();
    corked_ = true;
  }
  deliver(deliveries_);
  {
    const std::lock_guard hold{lock_};
    corked_ = false;
    if (!end_state)
      flush();
  }
  if (end_state)
    terminate(end_state->cause, end_state->reason, end_state->announced);
  else
    await_stream();
}

/// Reads and decodes the bytes that have arrived, at most those of
/// `max_reads_per_turn` reads.
/// @returns why the connection has ended. None: it has not ended.
std::optional<multiplexer::closed_state> stream_connection::read() {
  more_to_read_ = false;
  for (int i = 0; i < max_reads_per_turn; ++i) {
    const auto result = stream_->read_some(read_buffer_);
    if (result.state == status::wants_read
        || result.state == status::wants_write) {
      blocked_on_ =
        result.state == status::wants_write ? result.state : blocked_on_;
      return {};
    }
    if (result.state != status::ok) {
      const auto truncated = multiplexer_.finish();
      return multiplexer::closed_state{
        close_reason::closed,
        stream_->problem() + (truncated ? ", " + truncated->reason : "")};
    }
    failure_detector_.received(clock::now());
    if (auto end_state = multiplexer_.receive(
          std::span{read_buffer_}.first(result.bytes), events_))
      return end_state;
    if (result.bytes < read_buffer_.size() && !stream_->has_buffered())
      return {}; // the watcher reports bytes that arrive later
  }
  more_to_read_ = true;
  return {};
}

/// Writes as many queued bytes as the stream accepts now. @pre the mutex is
/// held.
void stream_connection::flush() {
  if (closed_ || blocked_on_ != status::ok
      || (corked_ && loop_->is_loop_thread()))
    return;
  while (!multiplexer_.output().empty()) {
    const auto result = stream_->write_some(multiplexer_.output().front());
    multiplexer_.output().written(result.bytes);
    if (result.state == status::ok)
      continue;
    blocked_on_ = result.state;
    if (result.state == status::failed)
      return loop_->post([self = shared_from_this(), why = stream_->problem()] {
        self->terminate(close_reason::closed, why);
      });
    // If the peer has closed the stream, the loop calls `on_ready`. `on_ready`
    // reads before it ends the connection, because a `goaway` with the peer's
    // reason may have arrived.
    const auto wait =
      result.state == status::wants_read || result.state == status::wants_write;
    loop_->post([self = shared_from_this(), wait] {
      wait ? self->await_stream() : self->on_ready();
    });
    return;
  }
}

void stream_connection::await_stream() {
  const std::lock_guard hold{lock_};
  if (closed_ || !watcher_)
    return;
  if (blocked_on_ == status::wants_write)
    watcher_->async_wait_writable();
  if (more_to_read_)
    loop_->post([self = shared_from_this()] { self->on_ready(); });
  else
    watcher_->async_wait_readable();
}

// -- time, and the end --------------------------------------------------------

std::chrono::milliseconds stream_connection::silence() const {
  return failure_detector_.silence(clock::now());
}

std::chrono::milliseconds stream_connection::until_timeout() const {
  using namespace std::chrono_literals;
  return settings_.heartbeat_timeout - silence() + 1ms;
}

bool stream_connection::check_heartbeat(clock::time_point now) {
  failure_detector_.tick(now);
  if (silence() <= settings_.heartbeat_timeout)
    return false;
  on_ready();
  if (silence() <= settings_.heartbeat_timeout)
    return false;
  terminate(close_reason::timed_out, "no data was received from it for "
                                       + std::to_string(silence().count())
                                       + " ms");
  return true;
}

void stream_connection::tick(clock::time_point now) {
  const auto self = shared_from_this();
  if (!watcher_)
    return; // `start` has not run yet
  if (check_heartbeat(now))
    return;
  std::unique_lock hold{lock_};
  if (closed_)
    return;
  if (closing_ && now - closing_since_ > settings_.close_timeout) {
    hold.unlock();
    return terminate(close_reason::closed, *closing_);
  }
  if (now - last_heartbeat_ < settings_.heartbeat_interval * 3 / 4
      || !multiplexer_.output().empty())
    return;
  last_heartbeat_ = now;
  multiplexer_.send_heartbeat();
  flush();
}

void stream_connection::close(const std::string& reason) {
  const std::lock_guard hold{lock_};
  if (closed_ || closing_)
    return;
  closing_ = reason;
  closing_since_ = clock::now();
  multiplexer_.send_goaway(reason);
  flush();
}

void stream_connection::terminate(close_reason cause, const std::string& reason,
                                  bool announced) {
  const auto self = shared_from_this();
  std::vector<delivery> deliveries;
  std::vector<std::function<void(close_reason, const std::string&)>> callbacks;
  bool closing = false;
  {
    const std::lock_guard hold{lock_};
    if (closed_)
      return;
    closing = closing_.has_value();
    closed_ = closing && cause == close_reason::closed
                ? multiplexer::closed_state{cause, *closing_}
                : multiplexer::closed_state{cause, reason, announced};
    watcher_.reset();
    stream_->close();
    for (auto entry = listeners_.begin(); entry != listeners_.end();)
      if (entry->second.listener
          && take_pending(entry->first, entry->second, deliveries))
        entry = listeners_.erase(entry);
      else
        ++entry;
    callbacks = std::exchange(on_closed_callbacks_, {});
  }
  deliver(deliveries);
  for (const auto& fn : callbacks)
    fn(closed_->cause, closed_->reason);
  if (const auto fn = std::exchange(on_closed_fn_, nullptr))
    fn(*this, *closed_, closing);
}

bool stream_connection::ended_by_close() const {
  const std::lock_guard hold{lock_};
  return closed_ && (closed_->announced || closing_);
}

void stream_connection::on_closed(
  std::function<void(close_reason, const std::string&)> fn) {
  {
    const std::lock_guard hold{lock_};
    if (!closed_) {
      on_closed_callbacks_.push_back(std::move(fn));
      return;
    }
  }
  // `closed_` does not change any more, so no mutex is needed
  fn(closed_->cause, closed_->reason);
}

} // namespace troupe::net

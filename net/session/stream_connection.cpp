#include "troupe/net/session/stream_connection.hpp"

#include <utility>

namespace troupe::net {

namespace {

using status = stream::status;
/// Size of one read, and the maximum number of reads in one turn of the loop.
constexpr std::size_t piece_bytes = std::size_t{64} * 1024;
constexpr int most_pieces = 16;

} // namespace

wired_connection::wired_connection(std::shared_ptr<io_loop> by,
                                   std::unique_ptr<stream> over, hello peer,
                                   const settings& how, over_fn then)
  : loop_{std::move(by)},
    peer_{std::move(peer)},
    how_{how},
    over_fn_{std::move(then)},
    vigil_{clock::now(), how.heartbeat},
    stream_{std::move(over)},
    board_{how.limits} {}

wired_connection::~wired_connection() = default;

// -- the stream ---------------------------------------------------------------

void wired_connection::start() {
  try {
    const std::lock_guard hold{lock_};
    if (over_)
      return;
    watch_ = std::make_unique<watch>(*loop_, stream_->descriptor(),
                                     [this] { on_ready(); });
  } catch (const std::exception& e) {
    return end(ending::dead, e.what());
  }
  piece_.resize(piece_bytes);
  vigil_.tick(clock::now());
  on_ready(); // TLS may have buffered bytes beyond the handshake
}

void wired_connection::on_ready() {
  const auto self = shared_from_this();
  std::optional<switchboard::end> over;
  {
    const std::lock_guard hold{lock_};
    if (over_)
      return;
    blocked_ = status::ok;
    over = read();
    route();
    corked_ = true;
  }
  tell(news_);
  {
    const std::lock_guard hold{lock_};
    corked_ = false;
    if (!over)
      flush();
  }
  if (over)
    end(over->how, over->why, over->said);
  else
    await_stream();
}

/// Reads and decodes what is available, within the limit of one turn.
/// @returns why the connection ended; none if it did not.
std::optional<switchboard::end> wired_connection::read() {
  more_ = false;
  for (int i = 0; i < most_pieces; ++i) {
    const auto x = stream_->read_some(piece_);
    if (x.how == status::wants_read || x.how == status::wants_write) {
      blocked_ = x.how == status::wants_write ? x.how : blocked_;
      return {};
    }
    if (x.how != status::ok) {
      const auto cut = board_.finish();
      return switchboard::end{ending::dead, stream_->problem()
                                              + (cut ? ", " + cut->why : "")};
    }
    vigil_.heard(clock::now());
    if (auto over = board_.take(std::span{piece_}.first(x.bytes), events_))
      return over;
    if (x.bytes < piece_.size() && !stream_->has_buffered())
      return {}; // the watcher reports what arrives from now on
  }
  more_ = true;
  return {};
}

/// Writes what can be written now. @pre the mutex is held.
void wired_connection::flush() {
  if (over_ || blocked_ != status::ok || (corked_ && loop_->here()))
    return;
  while (!board_.out().empty()) {
    const auto x = stream_->write_some(board_.out().front());
    board_.out().written(x.bytes);
    if (x.how == status::ok)
      continue;
    blocked_ = x.how;
    if (x.how == status::failed)
      return loop_->post([self = shared_from_this(), why = stream_->problem()] {
        self->end(ending::dead, why);
      });
    // The reason of a close is found by reading: a `goaway` may be buffered.
    const auto wait =
      x.how == status::wants_read || x.how == status::wants_write;
    loop_->post([self = shared_from_this(), wait] {
      wait ? self->await_stream() : self->on_ready();
    });
    return;
  }
}

void wired_connection::await_stream() {
  const std::lock_guard hold{lock_};
  if (over_ || !watch_)
    return;
  if (blocked_ == status::wants_write)
    watch_->until_writable();
  if (more_)
    loop_->post([self = shared_from_this()] { self->on_ready(); });
  else
    watch_->until_readable();
}

// -- time, and the end --------------------------------------------------------

std::chrono::milliseconds wired_connection::silence() const {
  return vigil_.silence(clock::now());
}

bool wired_connection::judge_silence(clock::time_point now) {
  vigil_.tick(now);
  if (silence() <= how_.suspect)
    return false;
  on_ready();
  if (silence() <= how_.suspect)
    return false;
  end(ending::silent, "no data was received from it for "
                        + std::to_string(silence().count()) + " ms");
  return true;
}

void wired_connection::tick(clock::time_point now) {
  const auto self = shared_from_this();
  if (!watch_)
    return; // not started yet
  if (judge_silence(now))
    return;
  std::unique_lock hold{lock_};
  if (over_)
    return;
  if (closing_ && now - closing_since_ > how_.patience) {
    hold.unlock();
    return end(ending::dead, *closing_);
  }
  if (now - beat_at_ < how_.heartbeat * 3 / 4 || !board_.out().empty())
    return;
  beat_at_ = now;
  board_.beat();
  flush();
}

void wired_connection::close(const std::string& why) {
  const std::lock_guard hold{lock_};
  if (over_ || closing_)
    return;
  closing_ = why;
  closing_since_ = clock::now();
  board_.say_goodbye(why);
  flush();
}

void wired_connection::end(ending how, const std::string& why, bool said) {
  const auto self = shared_from_this();
  std::vector<news> all;
  std::vector<std::function<void(ending, const std::string&)>> on_end;
  bool closing = false;
  {
    const std::lock_guard hold{lock_};
    if (over_)
      return;
    closing = closing_.has_value();
    over_ = closing && how == ending::dead ? switchboard::end{how, *closing_}
                                           : switchboard::end{how, why, said};
    watch_.reset();
    stream_->close();
    for (auto x = ears_.begin(); x != ears_.end();)
      if (x->second.to && drain(x->first, x->second, all))
        x = ears_.erase(x);
      else
        ++x;
    on_end = std::exchange(on_end_, {});
  }
  tell(all);
  for (const auto& fn : on_end)
    fn(over_->how, over_->why);
  if (const auto fn = std::exchange(over_fn_, nullptr))
    fn(*this, *over_, closing);
}

void wired_connection::on_end(
  std::function<void(ending, const std::string&)> fn) {
  {
    const std::lock_guard hold{lock_};
    if (!over_) {
      on_end_.push_back(std::move(fn));
      return;
    }
  }
  fn(over_->how, over_->why); // it does not change any more
}

} // namespace troupe::net

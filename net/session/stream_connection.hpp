#pragma once

#include "troupe/net/io/io_loop.hpp"
#include "troupe/net/io/stream.hpp"
#include "troupe/net/session/failure_detector.hpp"
#include "troupe/net/session/multiplexer.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace troupe::net {

/// A connection over a stream. A thread that posts a frame immediately writes
/// as many bytes as the stream accepts. The loop's thread writes the other
/// bytes, and does all reads. The endpoint owns the connection until it has
/// ended, so users may release their pointers earlier.
class stream_connection final
  : public connection,
    public std::enable_shared_from_this<stream_connection> {
public:
  using clock = std::chrono::steady_clock;
  struct settings {
    std::chrono::milliseconds heartbeat_interval, heartbeat_timeout,
      close_timeout;
    frame_limits limits;
  };
  /// Called once when the connection has ended.
  /// @param own true if this side had called `close` before the connection
  ///            ended.
  using on_closed_fn = std::function<void(
    const stream_connection&, const multiplexer::closed_state& how, bool own)>;

  stream_connection(std::shared_ptr<io_loop> loop,
                    std::unique_ptr<stream> connected_stream, hello peer,
                    const settings& options, on_closed_fn closed_fn);
  ~stream_connection() override;

  // -- on the loop's thread ---------------------------------------------------

  void start();
  /// Sends a heartbeat if one is due, and checks the timeouts. To be called at
  /// least once per heartbeat interval.
  void tick(clock::time_point now);
  /// Returns the time after which `tick` ends the connection if nothing arrives
  /// until then. Not above zero: the next `tick` ends it.
  std::chrono::milliseconds until_timeout() const;
  /// Ends the connection now. When the loop has stopped, the thread that
  /// stopped the loop may call it instead of the loop's thread.
  void terminate(close_reason cause, const std::string& reason,
                 bool announced = false);

  // -- for any thread ---------------------------------------------------------

  std::shared_ptr<channel> open(std::uint32_t channel) override;
  const hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override;
  void
  on_closed(std::function<void(close_reason, const std::string&)> fn) override;
  bool ended_by_close() const override;
  void close(const std::string& reason) override;

private:
  class connection_channel;
  /// The listener of a channel, and the events that the listener has not
  /// received.
  struct listener_entry {
    std::shared_ptr<channel_listener> listener;
    /// Events that are not yet delivered.
    std::vector<multiplexer::event> pending;
  };
  struct delivery {
    std::shared_ptr<channel_listener> listener;
    multiplexer::event event;
  };

  void set_listener(std::uint32_t channel,
                    std::shared_ptr<channel_listener> listener);
  void dispatch(std::uint32_t channel);
  bool take_pending(std::uint32_t channel, listener_entry& entry,
                    std::vector<delivery>& deliveries) const;
  static void deliver(std::vector<delivery>& deliveries);
  void on_ready();
  std::optional<multiplexer::closed_state> read();
  void route_events();
  void flush();
  void await_stream();
  bool check_heartbeat(clock::time_point now);

  const std::shared_ptr<io_loop> loop_;
  const hello peer_;
  const settings settings_;
  on_closed_fn on_closed_fn_;
  failure_detector failure_detector_;

  // Members for the loop's thread only.
  std::unique_ptr<descriptor_watcher> watcher_;
  std::vector<std::byte> read_buffer_;
  std::vector<multiplexer::event> events_;
  std::vector<delivery> deliveries_;
  clock::time_point last_heartbeat_{};

  mutable std::mutex lock_; // guards all members below
  std::unique_ptr<stream> stream_;
  multiplexer multiplexer_;
  std::map<std::uint32_t, listener_entry> listeners_;
  std::vector<std::function<void(close_reason, const std::string&)>>
    on_closed_callbacks_;
  std::optional<multiplexer::closed_state> closed_;
  std::optional<std::string> closing_;
  clock::time_point closing_since_{};
  /// State of the last write. `ok`: more bytes can be written. Otherwise writes
  /// wait until the stream is ready.
  stream::status blocked_on_ = stream::status::ok;
  /// True while the loop's thread delivers events. Frames that the listeners
  /// post meanwhile are written together, after the delivery.
  bool corked_ = false;
  /// True if one turn of the loop did not read all bytes that have arrived.
  bool more_to_read_ = false;
};

} // namespace troupe::net
